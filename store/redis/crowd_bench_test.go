package redis

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"rollcall"
)

var crowdSize = flag.Int("crowd", 200_000, "members of the room of BenchmarkCrowd")
var crowdNoIndex = flag.Bool("crowd-no-index", false, "without the index of users")

// BenchmarkCrowd measures what is asked of a room of 200,000 members in microseconds
// of Redis, by its own account, and what each of them costs.
func BenchmarkCrowd(b *testing.B) {
	addr, _ := startServer(b, "redis-server")
	ctx := context.Background()
	s, err := Open(ctx, Options{URL: "redis://" + addr, Logger: quiet(), NoUserIndex: *crowdNoIndex})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	info := func(section, pattern string) (numbers []float64) {
		text, err := s.client.Do(ctx, s.client.B().Info().Section(section).Build()).ToString()
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			n, _ := strconv.ParseFloat(m[1], 64)
			numbers = append(numbers, n)
		}
		return numbers
	}
	memory := func() float64 { return info("memory", `(?m)^used_memory:(\d+)`)[0] }
	busy := func() (us float64) { // CPU time of the main thread
		for _, n := range info("cpu", `(?m)^used_cpu_(?:sys|user)_main_thread:([0-9.]+)`) {
			us += n * 1e6
		}
		return us
	}
	before := memory()
	var ops []rollcall.Op
	for i := range *crowdSize {
		user := fmt.Sprintf("user-%07d", i)
		ops = append(ops, rollcall.Op{
			Kind: rollcall.OpGrant, Room: "stadium", User: rollcall.UserID(user), Connection: rollcall.ConnectionID("c-" + user),
			Info: json.RawMessage(fmt.Sprintf(`{"name":"Number %07d"}`, i)), TTL: time.Hour,
		})
		if len(ops) == 40 || i == *crowdSize-1 {
			if _, err := s.Apply(ctx, ops); err != nil {
				b.Fatal(err)
			}
			ops = ops[:0]
		}
	}
	perMember := (memory() - before) / float64(*crowdSize)
	joined := busy() / float64(*crowdSize)

	var cursors []rollcall.Version
	for at := rollcall.Version(0); ; {
		a, err := s.Read(ctx, rollcall.Query{Want: rollcall.WantPage, Room: "stadium", Cursor: at, Limit: 1000})
		if err != nil {
			b.Fatal(err)
		}
		if at = a.Next; at == 0 {
			break
		}
		cursors = append(cursors, at)
	}
	contacts := make([]rollcall.UserID, 500)
	for i := range contacts {
		contacts[i] = rollcall.UserID(fmt.Sprintf("user-%07d", i*(*crowdSize)/250)) // half of them are there
	}
	ask := func(name string, q func(i int) rollcall.Query) {
		b.Run(name, func(b *testing.B) {
			before := busy()
			for i := range b.N {
				if _, err := s.Read(ctx, q(i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((busy()-before)/float64(b.N), "us-of-redis/op")
			b.ReportMetric(perMember, "B/member")
			b.ReportMetric(joined, "us-of-redis/join")
		})
	}
	ask("Count", func(int) rollcall.Query { return rollcall.Query{Room: "stadium"} })
	ask("FirstPage", func(int) rollcall.Query {
		return rollcall.Query{Want: rollcall.WantPage, Room: "stadium", Limit: 50}
	})
	ask("PageAtAnyDepth", func(i int) rollcall.Query {
		return rollcall.Query{Want: rollcall.WantPage, Room: "stadium", Limit: 50, Cursor: cursors[i*37%len(cursors)]}
	})
	ask("Contacts", func(int) rollcall.Query {
		return rollcall.Query{Want: rollcall.WantUsers, Room: "stadium", Users: contacts}
	})
}
