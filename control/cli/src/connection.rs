//! A connection to the control socket of a testbed or switch: one line asks, one line answers.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::failure::{ENVIRONMENT, Failure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is read, in bytes.
const REPLY_MAX: u64 = 64 << 20;

/// An open connection.
pub(crate) struct Connection {
    stream: BufReader<UnixStream>,
    socket: PathBuf,
}

impl Connection {
    pub(crate) fn open(socket: &Path) -> Result<Connection, Failure> {
        let stream =
            UnixStream::connect(socket).map_err(|e| lacks(socket, "cannot connect to", &e))?;
        let timeouts = stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        timeouts.map_err(|error| lacks(socket, "cannot use", &error))?;
        Ok(Connection {
            stream: BufReader::new(stream),
            socket: socket.to_owned(),
        })
    }

    /// The line that answers `request`.
    pub(crate) fn ask(&mut self, request: &Value) -> Result<String, Failure> {
        let request = format!("{request}\n");
        let socket = &self.socket;
        let asked = self.stream.get_mut().write_all(request.as_bytes());
        asked.map_err(|error| lacks(socket, "cannot ask", &error))?;
        let mut line = String::new();
        let read = (&mut self.stream).take(REPLY_MAX).read_line(&mut line);
        read.map_err(|error| lacks(socket, "no answer from", &error))?;
        if !line.ends_with('\n') {
            let cut = Error::from(ErrorKind::UnexpectedEof);
            return Err(lacks(socket, "the answer was cut off by", &cut));
        }
        Ok(line)
    }
}

fn lacks(socket: &Path, what: &str, error: &Error) -> Failure {
    let socket = socket.display();
    let cure = "is a testbed or switch running that was started with this --socket?";
    Failure::new(ENVIRONMENT, format!("{what} {socket}: {error}; {cure}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use serde_json::json;

    use super::*;

    /// Goal: lines go to the socket and their answers come back; nobody there, and one who leaves in
    /// the middle, are exit code 3.
    #[test]
    fn a_socket_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let Err(failure) = Connection::open(&socket) else {
            panic!("nobody is there");
        };
        assert_eq!(failure.code, ENVIRONMENT, "{failure}");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut lines = String::new();
            for answer in ["{\"show\":\"ports\",\"rows\":[]}\n", "{\"show\":"] {
                reader.read_line(&mut lines).unwrap();
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            lines
        });
        let mut connection = Connection::open(&socket).unwrap();
        let answer = connection.ask(&json!({ "show": "ports" })).unwrap();
        assert_eq!(answer, "{\"show\":\"ports\",\"rows\":[]}\n");
        let failure = connection.ask(&json!({ "show": "links" })).unwrap_err();
        assert!(failure.message.contains("cut off"), "{failure}");
        assert_eq!(
            server.join().unwrap(),
            "{\"show\":\"ports\"}\n{\"show\":\"links\"}\n"
        );
    }
}
