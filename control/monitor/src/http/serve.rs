//! The listener: so many connections at once and no more, each with a time for its request.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use super::{App, router};

/// Connections at once; more wait in the backlog.
const CONNECTIONS_MAX: usize = 128;
/// A connection on which nothing moves for so long is closed; a live page hears something every 10 s.
const IDLE: Duration = Duration::from_secs(30);

/// Answers for ever.
pub async fn serve(listener: TcpListener, app: Arc<App>) {
    let bounded = Bounded {
        listener,
        places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
    };
    if let Err(error) = axum::serve(bounded, router(app)).await {
        tracing::warn!("http: {error}");
    }
}

struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

/// A connection with its place, which goes back with it.
struct Placed {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl axum::serve::Listener for Bounded {
    type Io = Placed;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Placed, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // Answers are written whole; what cannot be set costs some milliseconds.
                    let _ = stream.set_nodelay(true);
                    let placed = Placed {
                        stream,
                        idle: Box::pin(tokio::time::sleep(IDLE)),
                        _place: place,
                    };
                    return (placed, address);
                }
                Err(error) => {
                    tracing::warn!("http: accepting: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Placed {
    /// Passes on what came of an attempt, and closes what has not moved for too long.
    fn moved<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match attempt {
            Poll::Ready(done) => {
                self.idle.as_mut().reset(Instant::now() + IDLE);
                Poll::Ready(done)
            }
            Poll::Pending => match self.idle.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.moved(cx, attempt)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.moved(cx, attempt)
    }

    /// Pieces of an answer go out together, and are not copied before.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.moved(cx, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
