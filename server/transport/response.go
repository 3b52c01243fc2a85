package transport

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// responseChunk is how much of a Write is offered to net/http at once. Small
// enough to be copied by it: on HTTP/2 a Write that fails returns while its
// bytes may still be on their way out, and they belong to the caller again.
const responseChunk = 4096

// response is an SSE stream that lives in its HTTP handler.
type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	remote  string
	request <-chan struct{} // closed when the client is gone

	closing sync.Once
	closed  chan struct{} // closed by close

	gone atomic.Bool // Wait is returning: w must not be touched any more
	mu   sync.Mutex  // held while w is touched
}

func newResponse(w http.ResponseWriter, r *http.Request) (*response, error) {
	s := &response{
		w: w, control: http.NewResponseController(w), remote: r.RemoteAddr,
		request: r.Context().Done(), closed: make(chan struct{}),
	}
	// The time-outs of the http.Server were made for requests; the one for
	// reading would end the stream on HTTP/1.1. A writer without deadlines (a
	// recorder) is fine.
	s.control.SetReadDeadline(time.Time{})
	if err := s.setDeadline(time.Now().Add(acceptTime)); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	if err := s.control.Flush(); err != nil {
		return nil, err
	}
	return s, s.setDeadline(time.Time{})
}

func (s *response) setDeadline(t time.Time) error {
	if err := s.control.SetWriteDeadline(t); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (s *response) tryWrite() (int, error) {
	if s.gone.Load() {
		return 0, net.ErrClosed
	}
	return 0, nil
}

// write writes p piece by piece, each with a deadline of its own.
//
// The deadline is taken away after each: on HTTP/2 it is a timer that resets the
// stream when it fires, whether a write is waiting or not.
func (s *response) write(p []byte, progress time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return net.ErrClosed // the handler has returned: w is net/http's again
	}
	for len(p) > 0 {
		chunk := p[:min(len(p), responseChunk)]
		start := time.Now()
		if err := s.setDeadline(start.Add(progress)); err != nil {
			return err
		}
		// Asked after the deadline is set: wait sets gone first and then a
		// deadline in the past, so one of the two ends a write that it has to
		// wait for.
		if s.gone.Load() || isDone(s.closed) {
			return net.ErrClosed
		}
		_, err := s.w.Write(chunk)
		if err == nil {
			err = s.control.Flush()
		}
		if err != nil {
			// HTTP/2 says only that the stream is closed.
			if errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) >= progress {
				return ErrSlow
			}
			return err
		}
		p = p[len(chunk):]
	}
	return s.setDeadline(time.Time{})
}

func (s *response) close() { s.closing.Do(func() { close(s.closed) }) }

func (s *response) wait() End {
	end := End{Kind: Closed}
	select {
	case <-s.request:
	case <-s.closed:
	}
	if isDone(s.closed) {
		end.Kind = Local
	}
	s.gone.Store(true)
	if !s.mu.TryLock() {
		s.setDeadline(time.Now().Add(-time.Second))
		s.mu.Lock()
	}
	s.mu.Unlock()
	return end
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
