package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/flows/live"
)

// TestSyslog reads messages as RFC 5424 and RFC 6587 define them, over UDP and TCP: priority, time
// and name are right whatever the cluster is called, and the rest is the JSON of the entry.
func TestSyslog(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC)
	entry := func(verdict, differs, name string) *live.Entry {
		return &live.Entry{First: at, Last: at, Enforcer: "worker", Direction: "In", Client: netip.MustParseAddr("10.0.0.1"), Server: netip.MustParseAddr("2001:db8::2"), Protocol: 6, Port: 80,
			Verdict: verdict, Differs: differs, ServerOwner: live.Owner{Kind: "Pod", Namespace: "shop", Name: name}, Connections: 3}
	}
	entries := []*live.Entry{entry("Allow", "", "a\nb <1>"), entry("Drop", "", "x"), entry("Reject", "", "x"), entry("Allow", "Leaks", "x"), entry("Allow", "", strings.Repeat("long", 200))}
	priorities := []int{134, 132, 132, 131, 134}
	header := regexp.MustCompile(`^<(\d+)>1 (\S+) (\S+) nephele - flow - (\{.*\})$`)
	check := func(i int, message, host string) {
		t.Helper()
		m := header.FindStringSubmatch(message)
		var x analysis.SeenFlow
		if m == nil || m[1] != fmt.Sprint(priorities[i]) || m[2] != "2030-01-02T03:04:05.678000Z" || m[3] != host || json.Unmarshal([]byte(m[4]), &x) != nil || x.To.Name != entries[i].ServerOwner.Name || x.Connections != 3 {
			t.Errorf("message %d: %q", i, message)
		}
	}
	for cluster, host := range map[string]string{"abc-1": "abc-1", "": "-", "with space\nand more": "withspaceandmore", strings.Repeat("x", 999): strings.Repeat("x", 255)} {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSyslog("udp://"+udp.LocalAddr().String(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		if refused, err := s.Send(t.Context(), entries, at); err != nil || refused != 0 {
			t.Fatal(refused, err)
		}
		for i := range entries {
			b := make([]byte, 65536)
			n, _, err := udp.ReadFrom(b)
			if err != nil {
				t.Fatal(err)
			}
			check(i, string(b[:n]), host)
		}
		_, _ = s.Close(), udp.Close()
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	s, err := NewSyslog("tcp://"+tcp.Addr().String(), "c")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it connects again
		if _, err := s.Send(t.Context(), entries, at); err != nil {
			t.Fatal(err)
		}
		c, err := tcp.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		r := bufio.NewReader(c)
		for i := range entries {
			text, err := r.ReadString(' ')
			n, bad := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || bad != nil {
				t.Fatal(text, err)
			}
			message := make([]byte, n)
			if _, err := io.ReadFull(r, message); err != nil {
				t.Fatal(err)
			}
			check(i, string(message), "c")
		}
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("%q is left, %v", rest, err)
		}
		_ = c.Close()
	}
}
