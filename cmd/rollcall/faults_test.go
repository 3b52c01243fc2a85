//go:build faults && unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestStoreScripts runs testdata/faults/*.txtar, with a real redis-server where one
// is needed. Besides the usual commands there are
//
//	redis NAME [ARG...]    starts a redis-server; its HOST:PORT goes to the environment, and its
//	                       port as NAME_PORT
//	pick NAME              a HOST:PORT where nobody listens
//	rediscli ADDR ARG...   sends a command
//	until-doctor URL PATTERN  asks the doctor of a store until it says that
//	fake NAME KIND         something else that listens: http, hangup, or redis of the version 5.0.7
//
// and later, for one that starts when somebody waits for it already: redis with
// ADDR=HOST:PORT as its first argument.
func TestStoreScripts(t *testing.T) {
	runScripts(t, "testdata/faults", map[string]func(*testscript.TestScript, bool, []string){
		"redis": startRedis, "pick": pick, "until-doctor": untilDoctor, "rediscli": redisCLI, "fake": fake,
	})
}

func pick(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv(args[0]+"_PORT", port)
	l.Close()
}

func startRedis(ts *testscript.TestScript, _ bool, args []string) {
	name, args := args[0], args[1:]
	addr := ""
	if len(args) > 0 && strings.HasPrefix(args[0], "ADDR=") {
		addr, args = args[0][len("ADDR="):], args[1:]
	} else {
		pick(ts, false, []string{name})
		addr = ts.Getenv(name)
	}
	_, port, err := net.SplitHostPort(addr)
	ts.Check(err)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		ts.Fatalf("redis-server is missing: script/setup installs it")
	}
	cmd := exec.Command(path, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", ts.Getenv("WORK")}, args...)...)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill() // if it is still there
		_ = cmd.Wait()
	})
	ts.Setenv(name, addr)
	for until := time.Now().Add(patience); ; {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(until) {
			ts.Fatalf("redis-server does not listen: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func untilDoctor(ts *testscript.TestScript, _ bool, args []string) {
	for until := time.Now().Add(patience); ; {
		_ = ts.Exec("rollcall", "doctor", "--store", args[0]) // the output tells
		if out := ts.ReadFile("stdout"); regexp.MustCompile(args[1]).MatchString(out) {
			return
		} else if time.Now().After(until) {
			ts.Fatalf("doctor does not say %q:\n%s", args[1], out)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// redisCLI sends one command and fails the script if it is refused.
func redisCLI(ts *testscript.TestScript, neg bool, args []string) {
	c, err := net.Dial("tcp", args[0])
	ts.Check(err)
	defer c.Close()
	fmt.Fprintf(c, "*%d\r\n", len(args)-1)
	for _, word := range args[1:] {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(word), word)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	ts.Check(err)
	if strings.HasPrefix(line, "-") {
		ts.Fatalf("%q: %s", args[1:], line)
	}
}

// fake is something that is no store.
func fake(ts *testscript.TestScript, _ bool, args []string) {
	name, kind := args[0], args[1]
	if kind == "http" {
		s := httptest.NewServer(http.NotFoundHandler())
		ts.Defer(s.Close)
		ts.Setenv(name, s.Listener.Addr().String())
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if kind == "redis" {
				oldRedis(c)
			}
			c.Close()
		}
	}()
	ts.Defer(func() {
		l.Close()
		<-done
	})
	ts.Setenv(name, l.Addr().String())
}

// oldRedis answers one connection as a Redis 5 does.
func oldRedis(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		var n int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		words := make([]string, n)
		for i := range words {
			var size int
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			text := make([]byte, size+2)
			for got := 0; got < len(text); {
				k, err := in.Read(text[got:])
				if err != nil {
					return
				}
				got += k
			}
			words[i] = string(text[:size])
		}
		switch strings.ToUpper(words[0]) {
		case "INFO":
			const text = "# Server\r\nredis_version:5.0.7\r\nrole:master\r\nconnected_slaves:0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
			fmt.Fprintf(c, "$%d\r\n%s\r\n", len(text), text)
		case "PING":
			fmt.Fprint(c, "+PONG\r\n")
		case "TIME":
			fmt.Fprintf(c, "*2\r\n$10\r\n%d\r\n$1\r\n0\r\n", time.Now().Unix())
		default:
			fmt.Fprintf(c, "-ERR unknown command `%s`, with args beginning with: \r\n", words[0])
		}
	}
}
