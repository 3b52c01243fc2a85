package load

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/url"
	"time"
)

// dial opens a socket and sends a GET on it, whose answer must have the status.
func dial(addr, path, query string, as Login, header, status string, buffer int) (net.Conn, *bufio.Reader, error) {
	conn, err := net.DialTimeout("tcp", addr, Timeout)
	if err != nil {
		return nil, nil, err
	}
	b := make([]byte, 0, 1024)
	b = append(b, "GET "...)
	b = append(b, path...)
	mark := byte('?')
	for _, p := range [...][2]string{{"user", as.User}, {"resume", as.Resume}} {
		if p[1] != "" {
			b = append(b, mark)
			b = append(append(append(b, p[0]...), '='), url.QueryEscape(p[1])...)
			mark = '&'
		}
	}
	if query != "" {
		b = append(append(b, mark), query...)
	}
	b = append(append(b, " HTTP/1.1\r\nHost: "...), addr...)
	if as.Token != "" {
		b = append(append(b, "\r\nAuthorization: Bearer "...), as.Token...)
	}
	b = append(append(b, "\r\n"...), header...)
	if _, err = conn.Write(append(b, "\r\n"...)); err == nil {
		in := bufio.NewReaderSize(conn, buffer)
		if err = awaitHead(conn, in, status); err == nil {
			return conn, in, nil
		}
	}
	conn.Close()
	return nil, nil, err
}

// awaitHead reads the head of an answer that has to come soon.
func awaitHead(conn net.Conn, in *bufio.Reader, status string) error {
	conn.SetReadDeadline(time.Now().Add(Timeout))
	defer conn.SetReadDeadline(time.Time{})
	return readHead(in, status)
}

func readHead(in *bufio.Reader, status string) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.Contains(line, []byte(" "+status+" ")) {
		return fmt.Errorf("answer is %q", bytes.TrimSpace(line))
	}
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) == 2 {
			return nil
		}
	}
}

// Calls is a keep-alive socket for the calls of connections. Not safe for
// concurrent use.
type Calls struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

// DialCalls opens a socket for calls.
func DialCalls(addr string) (*Calls, error) {
	conn, err := net.DialTimeout("tcp", addr, Timeout)
	if err != nil {
		return nil, err
	}
	return &Calls{addr, conn, bufio.NewReaderSize(conn, 512)}, nil
}

// Post makes a call that only the connection may make.
func (c *Calls) Post(connection, resume, verb string, body []byte) error {
	_, err := fmt.Fprintf(c.conn, "POST /v1/connections/%s/%s HTTP/1.1\r\nHost: %s\r\nRollcall-Resume: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", connection, verb, c.addr, resume, len(body), body)
	if err != nil {
		return err
	}
	return awaitHead(c.conn, c.in, "204")
}

// Close closes the socket.
func (c *Calls) Close() error { return c.conn.Close() }
