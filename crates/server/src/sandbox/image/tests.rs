//! Archives that mean harm, and ones that do not.

use std::{
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use proptest::prelude::{ProptestConfig, Strategy, proptest};
use serde_json::{Value, json};

use super::{import::digest, *};

const LIMITS: Limits = Limits { bytes_max: 1 << 20, files_max: 1000 };

/// One entry as it stands in an archive: whatever is written here comes through.
#[derive(Debug, Clone)]
struct Item {
    kind: u8,
    name: Vec<u8>,
    link: Vec<u8>,
    mode: u32,
    /// What the header says; the content may be another.
    size: Option<u64>,
    data: Vec<u8>,
}

fn item(kind: u8, name: &str, data: &str) -> Item {
    let (link, data) = if matches!(kind, b'1' | b'2') { (data, "") } else { ("", data) };
    let (name, link, data) = (name.into(), link.into(), data.into());
    Item { kind, name, link, mode: 0o644, size: None, data }
}

fn file(name: &str, text: &str) -> Item {
    item(b'0', name, text)
}

fn dir(name: &str) -> Item {
    Item { mode: 0o755, ..item(b'5', name, "") }
}

fn tar(items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in items {
        let mut header = [0; 512];
        header[..item.name.len()].copy_from_slice(&item.name);
        let mut put = |at: usize, text: String| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(100, format!("{:07o}", item.mode));
        put(108, format!("{:07o}", 0));
        put(116, format!("{:07o}", 0));
        put(124, format!("{:011o}", item.size.unwrap_or(item.data.len() as u64)));
        put(136, format!("{:011o}", 1_700_000_000));
        header[156] = item.kind;
        header[157..157 + item.link.len()].copy_from_slice(&item.link);
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        bytes.extend(header);
        bytes.extend(&item.data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

struct Home {
    dir: tempfile::TempDir,
    images: Images,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(&dir.path().join("data"));
        Self { dir, images }
    }

    fn import(&self, source: &Path) -> Result<Image, Error> {
        self.images.import("it", source, LIMITS, Timestamp::UNIX_EPOCH)
    }

    fn import_bytes(&self, bytes: &[u8]) -> Result<Image, Error> {
        let path = self.dir.path().join("source");
        fs::write(&path, bytes).unwrap();
        self.import(&path)
    }

    fn import_items(&self, items: &[Item]) -> Result<Image, Error> {
        self.import_bytes(&tar(items))
    }

    fn root(&self) -> PathBuf {
        self.images.path("it").unwrap()
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Refused, for a reason that holds these words; and nothing is left of it, inside or out.
    fn refuses(&self, items: &[Item], words: &str) {
        self.refuses_bytes(&tar(items), words);
    }

    fn refuses_bytes(&self, bytes: &[u8], words: &str) {
        let outside = self.dir.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let error = self.import_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(fs::read_to_string(outside).unwrap(), "mine");
        assert!(!self.dir.path().join("evil").exists());
        let left: Vec<_> = fs::read_dir(&self.images.dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [LOCK]);
    }
}

#[test]
fn an_archive_becomes_an_image_and_an_image_is_listed_and_removed() {
    let home = Home::new();
    let items = [
        dir("./"),
        dir("./bin/"),
        file("./bin/sh", "#!"),
        item(b'2', "sh", "bin/sh"),
        item(b'1', "sh2", "./bin/sh"),
    ];
    let image = home.import_items(&items).unwrap();
    assert_eq!((image.files, image.bytes, image.skipped), (4, 2, 0));
    assert_eq!(image.digest, Some(digest(&tar(&items)[..]).unwrap()));
    assert_eq!((home.text("sh"), home.text("sh2")), ("#!".to_owned(), "#!".to_owned()));
    assert_eq!(fs::metadata(home.root().join("bin/sh")).unwrap().mtime(), 1_700_000_000);
    assert_eq!(home.images.list().unwrap(), [image]);
    assert!(matches!(home.import_items(&items), Err(Error::Exists(_))));
    home.images.remove("it").unwrap();
    assert!(home.images.list().unwrap().is_empty());
    assert!(matches!(home.images.remove("it"), Err(Error::Absent(_))));
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let home = Home::new();
    for (path, words) in [
        ("/etc/evil", "is absolute"),
        ("../evil", "goes up"),
        ("a/../../../evil", "goes up"),
        ("..", "goes up"),
        ("a/..", "goes up"),
    ] {
        for kind in [b'0', b'5', b'2', b'1', b'6'] {
            home.refuses(&[dir("a"), file("b", ""), item(kind, path, "b")], words);
        }
    }
    home.refuses(&[long_name(&"d/".repeat(300)), file("x", "")], "too deep");
    home.refuses(&[long_name(&"n".repeat(5000)), file("x", "")], "too long");
}

/// The name of the next entry, as GNU tar writes one that is too long for a header.
fn long_name(name: &str) -> Item {
    item(b'L', "././@LongLink", &format!("{name}\0"))
}

#[test]
fn nothing_is_written_through_a_link_to_the_outside() {
    let home = Home::new();
    let outside = home.dir.path().to_str().unwrap().to_owned();
    // A link in the middle of a path is followed inside the image, where its target is not.
    home.refuses(&[item(b'2', "out", &outside), file("out/evil", "x")], "out");
    home.refuses(
        &[item(b'2', "out", "../../../.."), item(b'2', "o2", "out/missing"), file("o2/evil", "x")],
        "o2",
    );
    // A link at the end of a path is replaced, never written through.
    let image = home.import_items(&[
        item(b'2', "file", &format!("{outside}/outside")),
        file("file", "inside"),
        item(b'2', "dir", &outside),
        dir("dir"),
        file("dir/evil", "inside"),
        item(b'2', "up", "../../../../../.."),
        file("up/made", "inside"),
    ]);
    image.unwrap();
    assert!(!home.dir.path().join("evil").exists() && !home.dir.path().join("made").exists());
    assert_eq!(fs::read_to_string(home.dir.path().join("outside")).unwrap(), "mine");
    for path in ["file", "dir/evil", "made"] {
        assert_eq!(home.text(path), "inside", "{path}");
    }
}

/// Names that lead in and out, up and through one another.
fn any_item() -> impl Strategy<Value = Item> {
    let name = || {
        proptest::sample::select(vec![
            "a",
            "b",
            "a/b",
            "b/a",
            "a/b/c",
            "./a",
            "..",
            "../a",
            "/a",
            "a/../b",
            ".",
            "",
            ".wh.a",
            "a/.wh.b",
            "a/.wh.kept",
            "a/.wh..wh..opq",
        ])
    };
    let target = proptest::sample::select(vec![
        "a",
        "b",
        "a/b",
        "..",
        "../..",
        "../../outside",
        "/",
        "../outside/kept",
        "OUTSIDE",
    ]);
    let kind = proptest::sample::select(b"0125163L".to_vec());
    (kind, name(), target).prop_map(|(kind, name, target)| item(kind, name, target))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whatever_an_archive_says_nothing_outside_changes(items in proptest::collection::vec(any_item(), 0..12), layer: bool) {
        let home = Home::new();
        let outside = home.dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "mine").unwrap();
        let place = |mut item: Item| {
            if item.link == b"OUTSIDE" {
                item.link = outside.to_str().unwrap().into();
            }
            item
        };
        let path = home.dir.path().join("source");
        fs::write(&path, tar(&items.into_iter().map(place).collect::<Vec<_>>())).unwrap();
        let file = File::open(&path).unwrap();
        let mut tree = tree::Tree::make(&home.dir.path().join("tree"), LIMITS).unwrap();
        // Taken or refused: both are answers.
        let _ = if layer {
            archive::unpack_layer(&file, &path, LIMITS, &mut tree)
        } else {
            archive::open(&file, &path).and_then(|reader| archive::unpack(reader, &path, LIMITS, &mut tree))
        };
        let names = |dir: &Path| {
            let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(home.dir.path()), ["outside", "source", "tree"]);
        assert_eq!(names(&outside), ["kept"]);
        let kept = fs::metadata(outside.join("kept")).unwrap();
        assert_eq!((fs::read_to_string(outside.join("kept")).unwrap().as_str(), kept.nlink()), ("mine", 1));
    }
}

#[test]
fn hard_links_reach_nothing_outside() {
    let home = Home::new();
    let secret = home.dir.path().join("outside");
    let secret = secret.to_str().unwrap();
    home.refuses(&[item(b'1', "copy", secret)], "is absolute");
    home.refuses(&[item(b'1', "copy", "../../../outside")], "goes up");
    home.refuses(&[item(b'1', "copy", "not/there")], "is not there");
    home.refuses(&[dir("d"), item(b'1', "copy", "d")], "is no file");
    let above = home.dir.path().to_str().unwrap();
    home.refuses(&[item(b'2', "out", above), item(b'1', "copy", "out/outside")], "is not there");
    // A second name of a link is that link, and writing over it leaves its target alone.
    home.import_items(&[item(b'2', "link", secret), item(b'1', "copy", "link"), file("copy", "inside")])
        .unwrap();
    assert_eq!(home.text("copy"), "inside");
    assert_eq!(fs::read_to_string(secret).unwrap(), "mine");
}

#[test]
fn devices_are_left_out_and_power_is_dropped() {
    let home = Home::new();
    let items = [
        item(b'3', "null", ""),
        item(b'4', "sda", ""),
        item(b'6', "pipe", ""),
        Item { mode: 0o6755, ..file("su", "x") },
        Item { mode: 0o7000, ..dir("shut") },
        file("shut/in", "x"),
        Item { mode: 0o1777, ..dir("tmp") },
    ];
    let image = home.import_items(&items).unwrap();
    assert_eq!(image.skipped, 3);
    for name in ["null", "sda", "pipe"] {
        assert!(!home.root().join(name).exists(), "{name}");
    }
    let mode = |path: &str| fs::metadata(home.root().join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("su"), mode("shut"), mode("tmp")), (0o755, 0o1700, 0o1777));
}

#[test]
fn an_image_stays_within_its_limits() {
    let home = Home::new();
    let many: Vec<_> = (0..1001).map(|n| file(&format!("f{n}"), "")).collect();
    home.refuses(&many, "more than 1000 files");
    let pipes: Vec<_> = (0..1001).map(|n| item(b'6', &format!("f{n}"), "")).collect();
    home.refuses(&pipes, "more than 1000 files");
    let half = "x".repeat(600 << 10);
    home.refuses(&[file("a", &half), file("b", &half)], "larger than");
    // Small on the disk, without end when unpacked.
    for bomb in [
        gzip(&tar(&[file("zeros", &"\0".repeat(30 << 20))])),
        zstd_of(&tar(&[file("z", &"\0".repeat(30 << 20))])),
    ] {
        assert!(bomb.len() < 1 << 20);
        home.refuses_bytes(&bomb, "larger than");
    }
    // A name that claims to be long is not read into memory.
    let name = Item { size: Some(6 << 30), ..long_name("x") };
    home.refuses(&[name, file("x", &half), file("y", &half)], "no whole tar archive");
    let hole = Item { size: Some(6 << 30), ..item(b'3', "device", &half) };
    home.refuses(&[hole], "no whole tar archive");
}

#[test]
fn short_paths_that_links_put_below_one_another_come_to_an_end() {
    let home = Home::new();
    let deep = "d/".repeat(45);
    let mut items = vec![dir(&deep), item(b'2', "s0", &deep)];
    for n in 0..10 {
        items.push(dir(&format!("s{n}/{}", "d/".repeat(30))));
        items.push(item(b'2', &format!("s{}", n + 1), &format!("s{n}/{}", "d/".repeat(30))));
    }
    home.refuses(&items, "too deep");
}

#[test]
fn an_archive_that_ends_early_is_no_image() {
    let home = Home::new();
    let whole = tar(&[file("a", &"x".repeat(5000))]);
    for length in [600, 512 + 4000] {
        home.refuses_bytes(&whole[..length], "");
    }
    home.refuses_bytes(&gzip(&whole)[..60], "");
    home.refuses_bytes(
        b"this is no archive, but long enough to be taken for one".repeat(20).as_slice(),
        "no whole",
    );
    home.refuses_bytes(&[0xfd, b'7', b'z', b'X', b'Z', 0, 0], "xz");
}

#[test]
fn compressed_archives_are_known_by_what_they_hold() {
    for bytes in [gzip(&tar(&[file("a", "b")])), zstd_of(&tar(&[file("a", "b")]))] {
        let home = Home::new();
        home.import_bytes(&bytes).unwrap();
        assert_eq!(home.text("a"), "b");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}

/// An OCI layout of these layers.
fn layout(dir: &Path, layers: &[Vec<u8>]) -> Value {
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8], platform: Value| {
        let digest = digest(bytes).unwrap();
        fs::write(blobs.join(&digest[7..]), bytes).unwrap();
        json!({ "mediaType": "x", "digest": digest, "size": bytes.len(), "platform": platform })
    };
    let layers: Vec<_> = layers.iter().map(|layer| put(layer, Value::Null)).collect();
    let config = put(b"{}", Value::Null);
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers }).to_string();
    let here = json!({ "os": "linux", "architecture": if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" } });
    let manifests = json!([
        put(b"{}", json!({ "os": "linux", "architecture": "s390x" })),
        put(manifest.as_bytes(), here),
        put(b"[]", json!({ "os": "unknown", "architecture": "unknown" })),
    ]);
    let inner = put(json!({ "manifests": manifests }).to_string().as_bytes(), Value::Null);
    fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    fs::write(dir.join("index.json"), json!({ "schemaVersion": 2, "manifests": [inner] }).to_string())
        .unwrap();
    manifests[1].clone()
}

fn layers() -> Vec<Vec<u8>> {
    let lower = [
        dir("etc"),
        file("etc/a", "1"),
        file("etc/b", "1"),
        dir("opt"),
        file("opt/x", "1"),
        file("lib", "1"),
    ];
    let middle = [
        file("etc/.wh.a", ""),
        // What a layer brings itself is not hidden by it, wherever that stands.
        file("opt/y", "2"),
        file("opt/.wh..wh..opq", ""),
        file("opt/z", "2"),
        file(".wh..wh.plnk", ""),
        dir("lib"),
        file("lib/c", "2"),
    ];
    vec![tar(&lower), gzip(&tar(&middle)), zstd_of(&tar(&[file("etc/b", "3"), file("etc/.wh.none", "")]))]
}

fn looks_as_layered(home: &Home) {
    let names = |path: &str| {
        let mut names: Vec<_> = fs::read_dir(home.root().join(path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["etc", "lib", "opt"]);
    assert_eq!(
        (names("etc"), names("opt"), names("lib")),
        (vec!["b".into()], vec!["y".into(), "z".into()], vec!["c".into()])
    );
    assert_eq!(home.text("etc/b"), "3");
}

/// As `tar -c .` in a directory does.
fn archive_of(dir: &Path) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.follow_symlinks(false);
    builder.append_dir_all(".", dir).unwrap();
    builder.into_inner().unwrap()
}

#[test]
fn layers_of_an_oci_image_are_laid_over_one_another() {
    let home = Home::new();
    let source = home.dir.path().join("layout");
    let manifest = layout(&source, &layers());
    let image = home.import(&source).unwrap();
    assert_eq!(image.digest.as_deref(), manifest["digest"].as_str());
    assert_eq!((image.files, image.bytes), (7, 4));
    looks_as_layered(&home);
    home.images.remove("it").unwrap();
    home.import_bytes(&gzip(&archive_of(&source))).unwrap();
    looks_as_layered(&home);
    assert!(!home.root().parent().unwrap().join("layout").exists());
}

#[test]
fn a_part_of_an_oci_image_that_is_not_what_it_is_named_is_refused() {
    let home = Home::new();
    let source = home.dir.path().join("layout");
    let manifest = layout(&source, &layers());
    let layer = tar(&[file("evil", "x")]);
    let own = digest(&layers()[0][..]).unwrap();
    let path = source.join("blobs/sha256").join(&own[7..]);
    let refused = |words: &str| {
        let error = home.import(&source).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    fs::write(&path, &layer).unwrap();
    refused("is said to have");
    let mut same_length = layers()[0].clone();
    same_length[0] ^= 1;
    fs::write(&path, same_length).unwrap();
    refused("is damaged");
    fs::remove_file(&path).unwrap();
    // A part is a file of the layout and nothing that a link leads to outside of it.
    let outside = home.dir.path().join("elsewhere");
    fs::write(&outside, &layers()[0]).unwrap();
    symlink(&outside, &path).unwrap();
    refused("No such file");
    fs::remove_file(&path).unwrap();
    refused("No such file");
    let digest = manifest["digest"].as_str().unwrap();
    for bad in ["sha256:../../../../etc/passwd", "sha512:00", &digest[..70]] {
        let index = json!({ "manifests": [{ "digest": bad, "size": 1 }] });
        fs::write(source.join("index.json"), index.to_string()).unwrap();
        refused("no sha256 digest");
    }
    fs::write(source.join("index.json"), r#"{"manifests":[]}"#).unwrap();
    refused("holds no image for linux/");
}

#[test]
fn a_layer_hides_nothing_above_its_root() {
    for (name, words) in [
        ("../.wh.outside", "goes up"),
        (".wh...", "hides no name"),
        (".wh..", "hides no name"),
        (".wh.", "hides no name"),
    ] {
        let home = Home::new();
        let source = home.dir.path().join("layout");
        layout(&source, &[tar(&[dir("d"), file("d/a", "x")]), tar(&[file(name, "")])]);
        let error = home.import(&source).unwrap_err().to_string();
        assert!(error.contains(words), "{name}: {error}");
    }
    let home = Home::new();
    let (source, kept) = (home.dir.path().join("layout"), home.dir.path().join("kept"));
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "mine").unwrap();
    let link = item(b'2', "out", kept.to_str().unwrap());
    layout(&source, &[tar(&[link]), tar(&[file("out/.wh.file", ""), file("out/.wh..wh..opq", "")])]);
    home.import(&source).unwrap();
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "mine");
}

#[test]
fn what_docker_saves_is_checked_and_unpacked() {
    let home = Home::new();
    let source = home.dir.path().join("saved");
    let (first, third) = (layers()[0].clone(), tar(&[file("etc/b", "3")]));
    let name = |n: u8| format!("{n:064x}");
    for (n, layer) in [(1, &first), (2, &third)] {
        fs::create_dir_all(source.join(name(n))).unwrap();
        fs::write(source.join(name(n)).join("layer.tar"), layer).unwrap();
    }
    let save = |ids: &[&[u8]]| {
        let ids: Vec<_> = ids.iter().map(|layer| digest(*layer).unwrap()).collect();
        let config = json!({ "rootfs": { "diff_ids": ids } }).to_string();
        let config_name = format!("{}.json", &digest(config.as_bytes()).unwrap()[7..]);
        fs::write(source.join(&config_name), config).unwrap();
        let paths = [format!("{}/layer.tar", name(1)), format!("{}/layer.tar", name(2))];
        let manifest = json!([{ "Config": config_name, "RepoTags": ["it:1"], "Layers": paths }]);
        fs::write(source.join("manifest.json"), manifest.to_string()).unwrap();
        archive_of(&source)
    };
    home.refuses_bytes(&save(&[&first, &first]), "is damaged");
    home.refuses_bytes(&save(&[&first]), "has 2 layers and names 1");
    home.import_bytes(&save(&[&first, &third])).unwrap();
    assert_eq!((home.text("etc/a"), home.text("etc/b")), ("1".to_owned(), "3".to_owned()));
}

#[test]
fn a_directory_is_copied_without_what_it_links_to() {
    let home = Home::new();
    let (source, secret) = (home.dir.path().join("tree"), home.dir.path().join("secret"));
    fs::create_dir_all(source.join("bin")).unwrap();
    fs::write(&secret, "mine").unwrap();
    fs::write(source.join("bin/a"), "a").unwrap();
    fs::set_permissions(source.join("bin/a"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(source.join("bin/a"), source.join("bin/b")).unwrap();
    symlink(&secret, source.join("link")).unwrap();
    symlink(home.dir.path(), source.join("up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    let image = home.import(&source).unwrap();
    assert_eq!((image.bytes, image.skipped, image.digest), (1, 1, None));
    let found = |path: &str| fs::symlink_metadata(home.root().join(path)).unwrap();
    assert_eq!(found("bin/a").ino(), found("bin/b").ino());
    assert_eq!(found("bin/a").mode() & 0o7777, 0o755);
    assert!(found("link").is_symlink() && found("up").is_symlink());
    let error = home.images.import("all", home.dir.path(), LIMITS, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(error.to_string().contains("holds the data directory"), "{error}");
}

#[test]
fn names_cannot_leave_the_directory_of_images() {
    let home = Home::new();
    for name in ["", "..", "a/b", ".lock", "host", "-x", "a b", &"x".repeat(101)] {
        let imported = home.images.import(name, home.dir.path(), LIMITS, Timestamp::UNIX_EPOCH);
        assert!(matches!(imported, Err(Error::Name(_))), "{name:?}");
    }
    assert!(matches!(home.images.remove("../data"), Err(Error::Name(_))));
}

#[test]
fn what_a_crash_left_is_never_seen_and_goes_with_the_next_import() {
    let home = Home::new();
    let left = home.images.dir.join(format!("{UNFINISHED}other"));
    fs::create_dir_all(left.join("root/deep")).unwrap();
    assert!(home.images.list().unwrap().is_empty());
    home.import_items(&[file("a", "b")]).unwrap();
    assert!(!left.exists());
}

#[test]
fn only_one_at_a_time_changes_images() {
    let home = Home::new();
    let held = home.images.lock().unwrap();
    assert!(matches!(home.import_items(&[]), Err(Error::Busy(_))));
    drop(held);
    home.import_items(&[]).unwrap();
}

#[test]
fn an_image_below_a_running_sandbox_stays() {
    let home = Home::new();
    home.import_items(&[file("a", "b")]).unwrap();
    let place = home.images.places.join("sbx-1");
    fs::create_dir_all(&place).unwrap();
    let lock = File::create(place.join(omoi_launcher::directory::LOCK)).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let state = |labels: Value| {
        let state = json!({ "id": "sbx-1", "labels": labels, "pid": 1, "start_ticks": 1, "ids": { "base": 0, "count": 1 },
            "cgroups": { "unified": null, "legacy": {} }, "disk": "image", "doors": [], "layers": [] });
        fs::write(place.join(omoi_launcher::directory::STATE), format!("{state}\n")).unwrap();
    };
    assert!(matches!(home.images.remove("it"), Err(Error::Untold { .. })));
    state(json!({ LABEL: "it" }));
    let error = home.images.remove("it").unwrap_err();
    assert!(matches!(&error, Error::Used { sandboxes, .. } if sandboxes == &["sbx-1"]), "{error}");
    assert_eq!(home.text("a"), "b");
    state(json!({ LABEL: "other" }));
    home.images.remove("it").unwrap();
}
