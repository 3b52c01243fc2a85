package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/server/transport"
)

// shown is what a viewer shows of the signals of users, by "user kind", as told by the
// text of its stream.
func (c *client) shown(now map[string]string) map[string]string {
	for _, list := range c.hears() {
		for _, s := range list {
			if s == "full" {
				clear(now)
				continue
			}
			user, rest, _ := strings.Cut(s, " ")
			kind, data, _ := strings.Cut(rest, " ")
			if now[user+" "+kind] = data; data == "null" {
				delete(now, user+" "+kind)
			}
		}
	}
	return now
}

// What a client that has come back says at once is shown on: it does not end with what
// it had said before, on whichever node it is, and however its old stream went. What it
// does not say again ends.
func TestSignalsThatAreSaidAgainAfterAReturnGoOn(t *testing.T) {
	for _, node := range []string{"the same node", "another node"} {
		for _, went := range []transport.EndKind{transport.Cut, transport.Closed} {
			for _, after := range []time.Duration{0, 300 * time.Millisecond} {
				t.Run(fmt.Sprint(node, went, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						one, two := twoNodes(t)
						to := map[string]*world{"the same node": one, "another node": two}[node]
						viewers := []*client{one.arrive("bob", lobby, nil), two.arrive("eve", lobby, nil)}
						ana := one.arrive("ana", lobby, nil)
						ana.sends("selection", "1")
						ana.sends("choice", "1")
						live(3*time.Second, append(viewers, ana)...)
						resume := ana.st.resume
						if went == transport.Closed {
							ana.ends(went)
						}
						back := to.move(ana, resume)
						time.Sleep(after)
						back.sends("selection", "1")
						back.sends("cursor", "7")
						if went == transport.Cut {
							ana.ends(went)
						}
						everybody := append(viewers, back)
						live(time.Second, everybody...)
						for range 8 {
							back.sends("cursor", "7")
							live(2*time.Second, everybody...)
						}
						for _, v := range viewers {
							shown := v.shown(make(map[string]string))
							if len(shown) != 2 || shown["ana selection"] != "1" || shown["ana cursor"] != "7" {
								t.Errorf("%s shows %v, want the selection and the cursor that ana has said again", v.st.c.user, shown)
							}
						}
					})
				})
			}
		}
	}
}

// A node that a connection has left says nothing more of its signals, which would be
// old by then.
func TestTheNodeThatAConnectionHasLeftRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := twoNodes(t)
		p := one.h.store.(half).pair
		bob := one.arrive("bob", lobby, nil)
		ana := one.arrive("ana", lobby, nil)
		ana.sends("cursor", "0")
		live(time.Second, bob, ana)
		back := two.move(ana, ana.st.resume)
		ana.ends(transport.Cut)
		back.sends("cursor", "1")
		ticks(4)
		p.mu.Lock()
		p.posts = nil
		p.mu.Unlock()
		for i := range 20 {
			bob.sends("cursor", fmt.Sprint(i))
			back.sends("cursor", fmt.Sprint(i+2))
			ticks(1)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.posts) < 20 {
			t.Errorf("%d posts", len(p.posts))
		}
		if i := slices.IndexFunc(p.posts, func(s string) bool {
			return strings.Contains(s, `"node":"one"`) && strings.Contains(s, string(back.st.c.id))
		}); i >= 0 {
			t.Errorf("the node said %s", p.posts[i])
		}
	})
}
