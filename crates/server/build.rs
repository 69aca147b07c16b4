//! Builds the crate anew when the pages that it embeds have changed.

fn main() {
    let dist = "../../web/dist";
    // A path that is missing would have the crate built anew each time.
    let watched = if std::path::Path::new(dist).exists() { dist } else { "build.rs" };
    println!("cargo:rerun-if-changed={watched}");
}
