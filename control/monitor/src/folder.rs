//! Sockets of switches, and folders of them: one task for each socket, as they come and go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;

/// Folders are looked through this often.
const LOOK: Duration = Duration::from_secs(1);

/// Tasks that end with the value.
struct Tasks(BTreeMap<PathBuf, JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in self.0.values() {
            task.abort();
        }
    }
}

/// Starts a task for each of `sockets` and for those in them that are folders, for ever; ends that of a socket that
/// has gone, and says so.
pub(crate) async fn watch(
    sockets: Vec<PathBuf>,
    start: impl Fn(PathBuf) -> JoinHandle<()>,
    gone: impl Fn(&Path),
) {
    let mut heard = Tasks(BTreeMap::new());
    loop {
        let mut wanted = Vec::new();
        for path in &sockets {
            match path.is_dir() {
                true => wanted.extend(sockets_in(path)),
                false => wanted.push(path.clone()),
            }
        }
        heard.0.retain(|path, task| {
            let stays = wanted.contains(path);
            if !stays {
                task.abort();
                gone(path);
            }
            stays
        });
        for path in wanted {
            heard
                .0
                .entry(path)
                .or_insert_with_key(|path| start(path.clone()));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Sockets of a folder; those of monitors are none of a switch.
fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| !name.starts_with("monitor"))
        })
        .collect();
    found.sort();
    found
}
