//! Frames of an AF_PACKET ring, the devices of the kernel's interfaces: they hold the port's largest
//! frame, and a packet buffer holds them.
//!
//! net_af_packet cuts what is longer than a frame of its ring and counts nothing, which looks like a
//! gray failure; and it does not start when the frame is longer than a buffer, without saying why.

use super::device::Device;
use crate::error::ConfigError;

/// `framesz` unless said (DPDK's DFLT_FRAME_SIZE).
const FRAME_DEFAULT: u32 = 2048;
/// What the kernel keeps of a frame before the packet: TPACKET2_HDRLEN and room for the link header,
/// aligned (linux/if_packet.h). 2,048 bytes were seen to pass 1,982 of a frame.
const KERNEL_BYTES: u32 = 66;
/// What the driver takes off a frame to compare it with a buffer: TPACKET2_HDRLEN less its address.
const HEADER_BYTES: u32 = 32;

/// Bytes of a ring's frame, if the device has such a ring; 0 if what it says is no number.
fn frame_bytes(device: &Device) -> Option<u32> {
    let Device::Vdev(text) = device else {
        return None;
    };
    if !text.starts_with("net_af_packet") {
        return None;
    }
    let given = text
        .split(',')
        .find_map(|part| part.strip_prefix("framesz="));
    Some(given.map_or(FRAME_DEFAULT, |text| text.parse().unwrap_or(0)))
}

/// Whether the ring's frames hold frames of `frame_bytes_max`.
pub(super) fn check(device: &Device, frame_bytes_max: u32, key: &str) -> Result<(), ConfigError> {
    let Some(frame) = frame_bytes(device) else {
        return Ok(());
    };
    let need = frame_bytes_max + KERNEL_BYTES;
    if frame >= need {
        return Ok(());
    }
    let good = need.next_power_of_two();
    let message = format!(
        "its ring has frames of {frame} bytes, which cut packets of the port's mtu without a count; \
         add framesz={good},blocksz={} to the device, or lower mtu",
        good * 4
    );
    Err(ConfigError::new(key, message))
}

/// Bytes that a packet buffer needs beside its headroom to take the frames of all rings.
pub(super) fn room(devices: &[Option<Device>]) -> u32 {
    let frames = devices.iter().flatten().filter_map(frame_bytes);
    frames.max().unwrap_or(0).saturating_sub(HEADER_BYTES)
}
