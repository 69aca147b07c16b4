//! Builds the crate anew when the pages that it embeds have changed.

#[expect(clippy::disallowed_methods, reason = "cargo tells build scripts about features in this way alone")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_UI").is_some() {
        let dist = "../../web/dist";
        // A path that is missing could not be watched, and pages that are built later would not be noticed.
        if let Err(error) = std::fs::create_dir_all(dist) {
            println!("cargo:warning={dist} cannot be made, so pages built later are not noticed: {error}");
        }
        println!("cargo:rerun-if-changed={dist}");
    }
}
