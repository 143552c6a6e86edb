//! Writes what fuzzing starts from, a folder for each target: `cargo run --example seeds -- FOLDER`.

use std::collections::BTreeMap;
use std::path::PathBuf;

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.expect("name the folder: cargo run --example seeds -- FOLDER");
    let mut counts = BTreeMap::new();
    for (target, input) in fuzz::seeds::all() {
        let count = counts.entry(target).or_insert(0u32);
        let place = folder.join(target);
        std::fs::create_dir_all(&place).expect("a folder");
        std::fs::write(place.join(format!("seed-{count}")), input).expect("a file");
        *count += 1;
    }
    for (target, count) in counts {
        println!("{target}: {count} inputs");
    }
}
