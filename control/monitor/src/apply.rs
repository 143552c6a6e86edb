//! Takes links out of routing: asks the switch that sends into a link over its control socket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use detector::Link;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::shared::{Order, Question, Shared};

/// Orders that wait.
pub(crate) const WAITING_MAX: usize = 64;
/// How long a switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer: a row for each of its links.
const ANSWER_MAX: u64 = 1 << 20;

/// Carries out orders, one after the other.
pub(crate) async fn serve(mut orders: mpsc::Receiver<Order>, shared: Arc<Shared>) {
    while let Some(Order(link)) = orders.recv().await {
        let done = match tokio::time::timeout(PATIENCE, carry_out(link, &shared)).await {
            Ok(done) => done,
            Err(_) => Err("its switch does not answer".to_owned()),
        };
        shared.report(Question::Ordered(link, done)).await;
    }
}

async fn carry_out(link: Link, shared: &Shared) -> Result<(), String> {
    let sender = match link {
        Link::Up { leaf, .. } => leaf.to_string(),
        Link::Down { spine, .. } => spine.to_string(),
    };
    let sources = shared.sources();
    let has = |switches: &[String]| switches.contains(&sender);
    let source = (sources.iter()).find(|source| source.connected && has(&source.switches));
    let Some(source) = source else {
        return Err(format!(
            "{sender} is not heard; name its socket in switches.sockets of the monitor's file"
        ));
    };
    let said = ask(&PathBuf::from(&source.from), link).await;
    let said = said.map_err(|error| format!("{}: {error}", source.from))?;
    match said["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(()),
    }
}

async fn ask(path: &PathBuf, link: Link) -> std::io::Result<Value> {
    let (reader, mut writer) = UnixStream::connect(path).await?.into_split();
    let request = json!({ "set": "link", "link": link, "on": false });
    writer.write_all(format!("{request}\n").as_bytes()).await?;
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(ANSWER_MAX));
    reader.read_line(&mut line).await?;
    Ok(serde_json::from_str(&line)?)
}
