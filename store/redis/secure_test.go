package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall"
)

// authority signs certificates of tests. Its own is in the file ca.
type authority struct {
	dir, ca string
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	a := &authority{dir: dir, ca: filepath.Join(dir, "ca.pem")}
	a.cert, a.key = a.sign(t, "ca", true)
	return a
}

// sign makes NAME.pem and NAME.key.
func (a *authority) sign(t *testing.T, name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: ca, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if ca {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// rights are what the guide says that a user of the store needs.
const rights = "~{p* ~rollcall:* &{p* &rollcall:* +@all -@admin -@dangerous +info"

// A store that speaks TLS alone, with certificates of its own, to a user who may do
// no more than the guide says.
func TestTLSAndRights(t *testing.T) {
	ours, others := newAuthority(t, t.TempDir()), newAuthority(t, t.TempDir())
	ours.sign(t, "server", false)
	ours.sign(t, "node", false)
	port := freePort(t)
	plain, _ := startServer(t, "redis-server", append([]string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", ours.file("server.pem"), "--tls-key-file", ours.file("server.key"),
		"--tls-ca-cert-file", ours.ca, "--user"}, strings.Fields("rollcall on >se@cret "+rights)...)...)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	mine := "&cert=" + ours.file("node.pem") + "&key=" + ours.file("node.key")
	good := "rediss://rollcall:se%40cret@" + addr + "/0?ca=" + ours.ca + mine
	use(t, good)

	for what, c := range map[string]struct{ url, fault, hint string }{
		"an authority that is not ours":  {"rediss://rollcall:se%40cret@" + addr + "?ca=" + others.ca + mine, "", "?ca=FILE"},
		"one that the machine trusts":    {"rediss://rollcall:se%40cret@" + addr + "?db=0" + mine, "", "?ca=FILE"},
		"no certificate of our own":      {"rediss://rollcall:se%40cret@" + addr + "?ca=" + ours.ca, "", "?cert=FILE&key=FILE"},
		"a wrong password":               {"rediss://rollcall:wrong@" + addr + "?ca=" + ours.ca + mine, "does not take this user and password", "percent-encoded"},
		"no TLS":                         {"redis://rollcall:se%40cret@" + addr, "", "rediss://"},
		"TLS where there is none":        {"rediss://rollcall:se%40cret@" + plain + "?ca=" + ours.ca + mine, "", "rediss://"},
		"a user who may do next to none": {"redis://weak:weak@" + plain, "", "&rollcall:*"},
	} {
		if strings.Contains(c.url, "weak") {
			admin, err := Open(context.Background(), Options{URL: "redis://" + plain, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			set := admin.client.B().Arbitrary("ACL", "SETUSER", "weak", "on", ">weak", "+@connection", "+cluster").Build()
			if err := admin.client.Do(context.Background(), set).Error(); err != nil {
				t.Fatal(err)
			}
			admin.Close()
		}
		s, err := Open(context.Background(), Options{URL: c.url, Logger: quiet(), Timeout: 3 * time.Second})
		if err == nil {
			s.Close()
			t.Errorf("%s: no error", what)
			continue
		}
		if hint := Hint(err); !strings.Contains(hint, c.hint) {
			t.Errorf("%s: the hint is %q for %v", what, hint, err)
		}
		if fault := Fault(context.Background(), c.url, err); !strings.Contains(fault, c.fault) {
			t.Errorf("%s: the fault is %q for %v", what, fault, err)
		}
		if strings.Contains(err.Error(), "se@cret") || strings.Contains(err.Error(), "se%40cret") {
			t.Errorf("%s: the password is in the error: %v", what, err)
		}
		if insecure(err.Error()) && Away(err) {
			t.Errorf("%s: waiting does not cure %v", what, err)
		}
	}
}

// use does everything that a node does with a store.
func use(t *testing.T, url string) {
	t.Helper()
	ctx := context.Background()
	s, err := Open(ctx, Options{URL: url, Logger: quiet(), Sweep: -1})
	if err != nil {
		t.Fatalf("%v: %s", err, Hint(err))
	}
	defer s.Close()
	frames, signals, said := make(chan *rollcall.Frame, 100), make(chan string, 1), make(chan string, 1)
	s.Feed(func(f *rollcall.Frame) { frames <- f })
	s.Listen("n1", func(m []byte) { said <- string(m) })
	ready := make(chan struct{}, 1)
	defer s.SubscribeSignals("lobby", func(m []byte) { signals <- string(m) }, func() { ready <- struct{}{} })()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	results, err := s.Apply(ctx, []rollcall.Op{{Kind: rollcall.OpGrant, Room: "lobby", User: "ana", Connection: "c1"}})
	must("apply", err)
	must("renew", s.Renew(ctx, []rollcall.Renewal{{Lease: &results[0].Lease}}))
	must("tick", s.Tick(ctx))
	a, err := s.Read(ctx, rollcall.Query{Want: rollcall.WantSnapshot, Room: "lobby"})
	must("read", err)
	if len(a.Members) != 1 {
		t.Errorf("read %+v", a)
	}
	_, err = s.Users(ctx, []rollcall.UserID{"ana"})
	must("users", err)
	must("revoke", s.Revoke(ctx, rollcall.Revocation{User: "ana"}))
	_, err = s.Revoked(ctx, []rollcall.UserID{"ana"})
	must("revoked", err)
	_, err = s.Inspect(ctx, "lobby", "")
	must("inspect", err)
	_, err = s.Secret(ctx)
	must("secret", err)
	heard, err := s.Send(ctx, "n1", []byte("hello"))
	must("send", err)
	if heard != 1 || <-said != "hello" {
		t.Error("nobody hears what nodes say")
	}
	<-ready
	must("publish signals", s.PublishSignals(ctx, "lobby", []byte("here")))
	for what, come := range map[string]func() bool{
		"a frame":  func() bool { return (<-frames).Partition == rollcall.PartitionOf("lobby") },
		"a signal": func() bool { return <-signals == "here" },
	} {
		if !come() {
			t.Errorf("%s is another one", what)
		}
	}
	_, err = Examine(ctx, url)
	must("examine", err)
}
