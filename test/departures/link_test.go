//go:build faults && linux

package departures

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// link is a wire between this machine and one that is a network namespace. The
// namespace and the wire end with the process that holds them.
type link struct {
	holder *child
	host   string // address of this end
}

// newLink lays a wire. It fails, and does not skip, where that is not allowed.
func newLink(t testing.TB) (*link, error) {
	attr := diesWithUs(syscall.SIGKILL)
	attr.Cloneflags = syscall.CLONE_NEWNET
	holder, err := start(t, launch{role: "hold", attr: attr})
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: network namespaces need root, as `sudo go test -tags faults ./test/departures` has; "+
			"in a container, --cap-add NET_ADMIN,SYS_ADMIN", err)
	}
	l := &link{holder: holder}
	pid := strconv.Itoa(holder.pid())
	name := "rcd" + pid
	// 198.18.0.0/15 is for tests of networks (RFC 2544).
	subnet := fmt.Sprintf("198.%d.%d.", 18+rand.N(2), rand.N(256))
	quarter := 4 * rand.N(64)
	l.host = subnet + strconv.Itoa(quarter+1)
	// Sockets that still have something to send would keep the namespace, and so
	// the wire, for minutes after its last process.
	t.Cleanup(func() { run("ip link del " + name) })
	for _, command := range []string{
		"ip link add " + name + " type veth peer name eth0 netns " + pid,
		"ip addr add " + l.host + "/30 dev " + name,
		"ip link set " + name + " up",
		"nsenter -t " + pid + " -n ip addr add " + subnet + strconv.Itoa(quarter+2) + "/30 dev eth0",
		"nsenter -t " + pid + " -n ip link set lo up",
		"nsenter -t " + pid + " -n ip link set eth0 up",
	} {
		if err := run(command); err != nil {
			return nil, fmt.Errorf("%w\nhint: the rows with the build tag faults need root, iproute2 and util-linux", err)
		}
	}
	return l, nil
}

func run(command string) error {
	args := strings.Fields(command)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}

// within is the command that runs another one on the far machine.
func (l *link) within() []string {
	return []string{"nsenter", "-t", strconv.Itoa(l.holder.pid()), "-n", "--"}
}

// up waits until an address of this machine can be reached from the far one.
func (l *link) up(ctx context.Context) error {
	for {
		err := run(strings.Join(l.within(), " ") + " ip -o link show dev eth0 up")
		out, _ := exec.Command("nsenter", append(l.within()[1:], "ip", "-o", "link", "show", "dev", "eth0")...).Output()
		if err == nil && strings.Contains(string(out), "LOWER_UP") {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return errors.Join(ctx.Err(), fmt.Errorf("the link does not come up: %s", out))
		}
	}
}

// cut takes the far end down, as a radio that is lost: no FIN, no RST, nothing
// comes through either way.
func (l *link) cut() error {
	return run(strings.Join(l.within(), " ") + " ip link set eth0 down")
}
