//! A testbed's result for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use agent::result::TestbedResult;
use config::TestbedConfig;

use crate::number::{grouped, percent, significant};
use crate::verdict::Verdict;

/// The whole report; its last line is the verdict.
pub(crate) fn render(config: &TestbedConfig, result: &TestbedResult) -> String {
    let mut text = String::new();
    let mut line = |name: &str, rest: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("{name:<13}{rest}").trim_end());
    };
    let fabric = format!(
        "{} leaves x {} spines, {} hosts, links {}, hosts {}; {} {} over {} QP{}, mtu {}, seed {}",
        config.leaves,
        config.spines,
        config.hosts(),
        config.link_rate,
        config.host_rate,
        config.workload,
        config.bytes,
        config.qps,
        if config.qps == 1 { "" } else { "s" },
        config.mtu,
        result.seed,
    );
    line("fabric", &fabric);
    line("policy", &policy(result));
    if !result.changes.is_empty() {
        let changes = result.changes.iter();
        let changes = changes.map(|of| format!("after {} ms {}", grouped(of.at_ms), of.change));
        section(&mut line, "changed", changes.collect());
    }
    section(&mut line, "injected", injected(result));
    section(&mut line, "convicted", convicted(result));
    let suspects = result.suspects.iter().map(|suspect| {
        format!(
            "{:<15}may lose {} ({} packets on its path); missing: {}",
            suspect.link.to_string(),
            percent(suspect.drop_rate),
            grouped(suspect.packets),
            suspect.missing
        )
    });
    section(&mut line, "suspects", suspects.collect());
    line("tests", &windows(result));
    if !result.measurement.test.is_empty() {
        line("measuring", &measuring(result));
    }
    line("flows", &flows(result));
    line("packets", &packets(result));
    line("speed", &speed(result));
    if result.partial {
        let reason = result.reason.as_deref().unwrap_or("no reason given");
        line(
            "partial",
            &format!("the run ended before its work was done ({reason})"),
        );
    }
    line("verdict", &Verdict::of(result).line());
    text
}

/// A heading with one entry per line.
fn section(line: &mut impl FnMut(&str, &str), name: &str, entries: Vec<String>) {
    if entries.is_empty() {
        line(name, "none");
    }
    for (index, entry) in entries.iter().enumerate() {
        line(if index == 0 { name } else { "" }, entry);
    }
}

fn policy(result: &TestbedResult) -> String {
    let policy = &result.policy;
    format!(
        "preset {}: spray {}, ties {}, marks {}, evidence {}, {} packets per \
         spine at least, burst {}, uplink load {}",
        policy.preset,
        policy.spray,
        policy.tie,
        policy.mark,
        policy.evidence,
        grouped(policy.p_min),
        policy.burst,
        percent(policy.load),
    )
}

fn injected(result: &TestbedResult) -> Vec<String> {
    let entry = |injected: &agent::result::Injected| {
        let (seen, lost) = (injected.packets_seen, injected.packets_dropped);
        let rate = if seen == 0 {
            0.0
        } else {
            lost as f64 / seen as f64
        };
        format!(
            "{:<15}{}: lost {} of {} packets ({})",
            injected.link.to_string(),
            injected.spec,
            grouped(lost),
            grouped(seen),
            percent(rate)
        )
    };
    result.injected.iter().map(entry).collect()
}

fn convicted(result: &TestbedResult) -> Vec<String> {
    let entry = |found: &agent::result::Convicted| {
        let [low, high] = found.ci95;
        format!(
            "{:<15}loses {} (95 %: {} to {}); {} failed paths, {} packets, {} per spine, after {} ms",
            found.link.to_string(),
            percent(found.drop_rate),
            percent(low),
            percent(high),
            found.paths,
            grouped(found.packets),
            grouped(found.packets_per_spine),
            significant(found.at_ms),
        )
    };
    result.convicted.iter().map(entry).collect()
}

fn windows(result: &TestbedResult) -> String {
    let tests = &result.tests;
    let sum = |count: fn(&agent::result::Test) -> usize| {
        grouped(tests.iter().map(|test| count(test) as u64).sum())
    };
    let noise = match result.noise.sigma_over_sqrt_lambda {
        Some(sigma) => format!(
            "; healthy counts deviate by {} sqrt(lambda) over {} paths",
            significant(sigma),
            grouped(result.noise.paths)
        ),
        None => String::new(),
    };
    format!(
        "windows {}, paths {}: {} failed, {} void{}, {} too short to tell{}{noise}",
        grouped(tests.len() as u64),
        sum(|test| test.usable.len()),
        sum(|test| test.failed.len()),
        sum(|test| test.void.len()),
        void_reasons(tests),
        sum(|test| test.abstained.len()),
        could_tell(tests),
    )
}

/// Why paths are void, and how many for each reason.
fn void_reasons(tests: &[agent::result::Test]) -> String {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for test in tests {
        for spine in &test.void {
            if let Some(reason) = test.why.get(&spine.to_string()) {
                *reasons.entry(reason).or_default() += 1;
            }
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let list: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{reason} {}", grouped(*count)))
        .collect();
    format!(" ({})", list.join(", "))
}

/// From which loss rate on the tests that abstained could have told, the best and the worst.
fn could_tell(tests: &[agent::result::Test]) -> String {
    let rates = || tests.iter().flat_map(|test| test.could_tell.values());
    match (
        rates().copied().min_by(f64::total_cmp),
        rates().copied().max_by(f64::total_cmp),
    ) {
        (Some(best), Some(worst)) if best == worst => {
            format!(" (they could from {} on)", percent(best))
        }
        (Some(best), Some(worst)) => format!(
            " (they could from {} to {} on)",
            percent(best),
            percent(worst)
        ),
        _ => String::new(),
    }
}

/// How it was tested, how often that errs, and what it takes.
fn measuring(result: &TestbedResult) -> String {
    let m = &result.measurement;
    let alarms = match m.test.as_str() {
        "sequential" => format!(", {} alarms", grouped(m.alarms)),
        _ => String::new(),
    };
    format!(
        "{} test{alarms}; {} path tests, at most {} false alarms a day at this rate; {} bytes of \
         state per leaf, {} per spine, {} messages of {} bytes in all per window",
        m.test,
        grouped(m.path_tests),
        significant(m.expected_false_alarms_per_day),
        grouped(m.measurement_state_bytes),
        grouped(m.spine_state_bytes),
        grouped(m.messages),
        grouped(m.message_bytes),
    )
}

fn flows(result: &TestbedResult) -> String {
    let flows = &result.flows;
    let errors = match flows.host_errors {
        0 => String::new(),
        errors => format!("; {} PACKETS WERE WRONG AT HOSTS", grouped(errors)),
    };
    format!(
        "{} announced, {} measured, {} completed, {} failed; {} packets sent again, {} of them \
         needlessly{errors}",
        grouped(flows.announced),
        grouped(flows.measured),
        grouped(flows.completed),
        grouped(flows.failed),
        grouped(flows.retransmitted),
        grouped(flows.spurious_retransmits),
    )
}

fn packets(result: &TestbedResult) -> String {
    let sums = &result.conservation;
    let leaked = match sums.leaked {
        0 => String::new(),
        leaked => format!("; {} BUFFERS NOT GIVEN BACK", grouped(leaked)),
    };
    let drops: Vec<String> = sums
        .drops
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{reason} {}", grouped(*count)))
        .collect();
    let drops = if drops.is_empty() {
        "none".to_owned()
    } else {
        drops.join(", ")
    };
    format!(
        "{} in, {} made, {} out, {} consumed, {} queued; dropped: {drops}; lost on links {}, on \
         their way {}: {}{leaked}",
        grouped(sums.rx),
        grouped(sums.generated),
        grouped(sums.tx),
        grouped(sums.consumed),
        grouped(sums.queued),
        grouped(sums.link_injected),
        grouped(sums.in_flight),
        if sums.ok {
            "all accounted for"
        } else {
            "NOT ALL ACCOUNTED FOR"
        },
    )
}

fn speed(result: &TestbedResult) -> String {
    format!(
        "{} packet hops in {} s: {} per second; {} ms of the fabric's time",
        grouped(result.packet_hops),
        significant(result.elapsed_s),
        grouped(result.packet_hops_per_s as u64),
        grouped(result.fabric_ms),
    )
}

#[cfg(test)]
mod tests;
