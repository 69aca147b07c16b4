//! Images that a user brings.

use std::fs;
use std::process::Command;

use omoi_launcher::{Bind, How, Image};

use crate::needs;
use crate::sandbox::{Place, is_root};

#[test]
fn a_static_program_runs_in_an_empty_image() {
    needs!(is_root(), "root");
    let place = Place::new();
    let (source, program) = (place.path().join("a.c"), place.path().join("worker"));
    fs::write(
        &source,
        "#include <stdio.h>\n#include <unistd.h>\nint main(void){printf(\"%d\\n\", getuid());return 5;}",
    )
    .unwrap();
    #[expect(clippy::disallowed_methods, reason = "a static program has to come from somewhere")]
    let built = Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&program).status();
    needs!(built.is_ok_and(|status| status.success()), "a compiler that links statically");
    let image = place.path().join("image");
    fs::create_dir(&image).unwrap();
    let mut plan = place.plan();
    plan.image = Image::Dir(image.clone());
    plan.binds.push(Bind { from: program, to: "/omoi/worker".into() });
    plan.argv = vec!["/omoi/worker".to_owned()];
    let sandbox = place.start(&plan);
    assert_eq!(sandbox.control().wait().unwrap().how, How::Code(5));
    assert_eq!(sandbox.log(), "1000\n");
    assert_eq!(fs::read_dir(&image).unwrap().count(), 0, "the image is not written to");
}

#[test]
fn an_image_of_the_user_s_is_the_whole_system() {
    needs!(is_root(), "root");
    let place = Place::new();
    let image = place.path().join("image");
    // The host's own programs by a link would show the host; copies make a small system.
    for dir in ["bin", "etc"] {
        fs::create_dir_all(image.join(dir)).unwrap();
    }
    fs::write(image.join("etc/motd"), "of the image\n").unwrap();
    let mut plan = place.plan();
    plan.image = Image::Dir(image);
    for dir in ["/usr", "/lib", "/lib64"] {
        if fs::symlink_metadata(dir).is_ok() {
            plan.binds.push(Bind { from: fs::canonicalize(dir).unwrap(), to: dir.into() });
        }
    }
    plan.argv = ["/usr/bin/sleep", "infinity"].map(str::to_owned).to_vec();
    let sandbox = place.start(&plan);
    let exec =
        sandbox.exec_of(["/usr/bin/cat", "/etc/motd", "/workspace/README"].map(str::to_owned).to_vec());
    let null = fs::File::open("/dev/null").unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    use std::os::fd::AsFd as _;
    let running = sandbox.control().exec(&exec, [null.as_fd(), writer.as_fd(), writer.as_fd()]).unwrap();
    drop(writer);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    assert_eq!(text, "of the image\nof the checkout\n");
    running.wait().unwrap();
}
