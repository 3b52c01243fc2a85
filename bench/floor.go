package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"rollcall/bench/load"
)

// floorCommand is the first argument of the process that only writes.
const floorCommand = "child-floor"

// floorSpan is how long it does so.
const floorSpan = 4 * time.Second

// writeCost is the CPU time of a bare write to a socket at the pace of a
// fan-out: so many bytes to n sockets every 50 ms, to a process that sleeps until there is
// something to read. Nothing that tells n clients of something costs less on this
// machine, at this hour.
func writeCost(n, bytes int) (time.Duration, error) {
	c, err := startChildAs(floorCommand, strconv.Itoa(n), strconv.Itoa(bytes))
	if err != nil {
		return 0, err
	}
	defer c.stop()
	for range n {
		conn, err := net.DialTimeout("tcp", c.addr, load.Timeout)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		go io.Copy(io.Discard, conn)
	}
	var cost time.Duration
	if err := c.out.Decode(&cost); err != nil {
		return 0, err
	}
	return cost, nil
}

// serveFloor is the process of [writeCost].
func serveFloor(args []string) error {
	var n, bytes int
	if _, err := fmt.Sscan(strings.Join(args, " "), &n, &bytes); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	out := json.NewEncoder(os.Stdout)
	out.Encode(l.Addr().String())
	conns := make([]net.Conn, n)
	for i := range conns {
		if conns[i], err = l.Accept(); err != nil {
			return err
		}
		defer conns[i].Close()
	}
	body := make([]byte, bytes)
	began, writes := load.CPUTime(), 0
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < floorSpan; <-tick.C {
		for _, conn := range conns {
			if _, err := conn.Write(body); err != nil {
				return err
			}
			writes++
		}
	}
	out.Encode((load.CPUTime() - began) / time.Duration(writes))
	io.Copy(io.Discard, os.Stdin)
	return nil
}
