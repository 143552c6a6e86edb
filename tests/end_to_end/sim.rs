//! The simulator, as people run it: the link that is named, files that do not depend on threads or
//! shards, and what is refused.

use std::path::Path;

use crate::run::spraycheck;

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file was written")
}

/// Goal: a scenario of a file names its link, in the testbed's JSON.
#[test]
fn a_scenario_names_its_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let scenario = "[fabric]\nleaves = 6\nspines = 4\nbytes = \"32MiB\"\n\
                    [[at]]\ntime = \"20us\"\nfail = [\"spine1>leaf4:drop=0.02\"]\n";
    std::fs::write(&file, scenario).expect("it is written");
    let name = file.to_str().expect("a path");
    let done = spraycheck(&["sim", "--scenario", name, "--json", "-"]);
    let result = done.json();
    assert_eq!(done.status, 0, "{result}");
    assert_eq!(result["convicted"][0]["link"], "spine1>leaf4");
    assert_eq!(result["injected"][0]["spec"], "drop=0.02 from 20us");
    assert_eq!(result["conservation"]["ok"], true);
    std::fs::write(&file, scenario.replace("spines", "spins")).expect("it is written");
    let refused = spraycheck(&["sim", "--scenario", name]);
    assert_eq!(refused.status, 2);
    assert!(
        refused.stderr.contains("mine.toml:3:")
            && refused.stderr.contains("did you mean \"spines\"?"),
        "{}",
        refused.stderr
    );
}

/// Goal: the result files of one thread and of two are the same, byte for byte.
#[test]
fn files_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |jobs: &str| {
        let path = folder.path().join(jobs);
        let name = path.to_str().expect("a path");
        let done = spraycheck(&[
            "sim",
            "--leaves",
            "4",
            "--spines",
            "4",
            "--bytes",
            "4MiB",
            "--seeds",
            "5",
            "--tie",
            "random",
            "--fail",
            "leaf1>spine2:drop=0.01",
            "--jobs",
            jobs,
            "--json",
            name,
        ]);
        assert!(done.status < 2, "{}", done.stderr);
        text(&path)
    };
    assert_eq!(run("1"), run("2"));
}

/// Goal: shards put together are the one run, byte for byte; a missing one is missed.
#[test]
fn shards_make_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| {
        folder
            .path()
            .join(name)
            .to_str()
            .expect("a path")
            .to_owned()
    };
    let run = |more: &[&str]| {
        let mut all = vec!["sim", "noise", "--quick", "--seeds", "3", "--spines", "4"];
        all.extend_from_slice(more);
        let done = spraycheck(&all);
        assert!(done.status < 2, "{}", done.stderr);
    };
    run(&[
        "--json",
        &path("all"),
        "--csv",
        &path("all.csv"),
        "--plot",
        &path("all.svg"),
    ]);
    for shard in ["1/2", "2/2"] {
        run(&["--shard", shard, "--json", &path(&shard[..1])]);
    }
    let done = spraycheck(&[
        "sim",
        "merge",
        &path("1"),
        &path("2"),
        "--json",
        &path("merged"),
    ]);
    assert!(done.status < 2, "{}", done.stderr);
    assert_eq!(text(path("all").as_ref()), text(path("merged").as_ref()));
    assert!(text(path("all.csv").as_ref()).starts_with("spray,tie,mark,"));
    assert!(text(path("all.svg").as_ref()).contains("</svg>"));
    let missed = spraycheck(&["sim", "merge", &path("1")]);
    assert_eq!(missed.status, 2);
    assert!(
        missed.stderr.contains("trials are missing"),
        "{}",
        missed.stderr
    );
}

/// Goal: an experiment on the data plane tells the same paths apart as in the simulator, at the s that the
/// simulator has fixed, and its trials spread over shards like any.
#[test]
fn the_data_plane_stands_beside_the_simulator() {
    let done = spraycheck(&[
        "sim", "testbed", "--quick", "--spines", "4", "--drops", "0.02", "--jobs", "1", "--json",
        "-",
    ]);
    let answer = done.json();
    assert_eq!(done.status, 0, "{}", done.stderr);
    let rows = answer["rows"].as_array().expect("rows");
    let on = |name: &str| {
        let rows: Vec<_> = rows.iter().filter(|row| row["on"] == name).collect();
        assert_eq!(rows.len(), 2, "{name}: the paper's way and ours");
        rows
    };
    for (here, there) in on("data plane").into_iter().zip(on("simulator")) {
        assert_eq!(here["s"], there["s"], "{here}");
        assert_eq!(here["paths"], there["paths"], "{here}");
        assert_eq!(
            (&here["fpr"], &here["fnr"]),
            (&there["fpr"], &there["fnr"]),
            "{here}"
        );
    }
}
