//go:build faults && linux && amd64

package cluster

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// reply is a value of the protocol of Redis.
type reply struct {
	kind byte // as the protocol writes it
	text string
	list []reply
}

func (r reply) int() int { n, _ := strconv.Atoi(r.text); return n }

func (r reply) strings() []string {
	var all []string
	for _, v := range r.list {
		all = append(all, v.text)
	}
	return all
}

// readReply reads one value, and returns its bytes too.
func readReply(in *bufio.Reader, raw []byte) (reply, []byte, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return reply{}, raw, err
	}
	raw = append(raw, line...)
	head := strings.TrimRight(line, "\r\n")
	if head == "" {
		return reply{}, raw, fmt.Errorf("an empty line where a value is due")
	}
	r := reply{kind: head[0], text: head[1:]}
	switch r.kind {
	case '$', '=', '!':
		n, err := strconv.Atoi(r.text)
		if err != nil || n < 0 {
			r.text = ""
			return r, raw, err
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return r, raw, err
		}
		r.text = string(body[:n])
		return r, append(raw, body...), nil
	case '*', '>', '~', '%', '|':
		n, err := strconv.Atoi(r.text)
		if err != nil {
			return r, raw, err
		}
		if r.kind == '%' || r.kind == '|' {
			n *= 2
		}
		for range n {
			var v reply
			if v, raw, err = readReply(in, raw); err != nil {
				return r, raw, err
			}
			r.list = append(r.list, v)
		}
	}
	return r, raw, nil
}
