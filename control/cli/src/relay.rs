//! `spraycheck relay`: verdicts of this machine's switches to the monitor of another, until it is told to stop.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use config::RelayFile;
use monitor::nats::relay::Relay;

use crate::args::RelayArgs;
use crate::failure::{ENVIRONMENT, Failure};
use crate::monitor::Stop;
use crate::output;

pub(crate) fn run(args: &RelayArgs) -> Result<ExitCode, Failure> {
    let file = RelayFile::read(&args.config)?;
    let sockets: Vec<String> = (file.sockets.iter())
        .map(|path| path.display().to_string())
        .collect();
    let metrics = file.metrics.map_or(String::new(), |listen| {
        format!("metrics      http://{listen}/metrics\n")
    });
    output::print(&format!(
        "fabric       {}\nhears        {}\nsends to     {}\n{metrics}",
        file.name,
        sockets.join(", "),
        file.nats.servers.join(", "),
    ))?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    agent::log::begin_as(crate::log::is_json(), "info");
    let lacks = |error: std::io::Error| Failure::new(ENVIRONMENT, error.to_string());
    let stop = Stop::register()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(lacks)?;
    let relayed = runtime.block_on(async {
        let relay = Relay::start(file).await.map_err(lacks)?;
        stop.wait().await;
        let relayed = relay.relayed.clone();
        relay.finish().await;
        Ok::<_, Failure>(relayed)
    })?;
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    output::print(&format!(
        "relayed      {} verdicts in {} messages, {} sent again; {} verdicts missed\n",
        count(&relayed.verdicts),
        count(&relayed.messages),
        count(&relayed.retries),
        count(&relayed.missed),
    ))?;
    Ok(ExitCode::SUCCESS)
}
