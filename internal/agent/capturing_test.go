package agent_test

import (
	"context"
	"encoding/binary"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/capturing"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
)

// captures are the PacketCaptures of a cluster, as its API server has them.
type captures struct {
	*fcache.FakeControllerSource
	mu   sync.Mutex
	list map[string]*v1alpha1.PacketCapture
}

func (c *captures) write(_ context.Context, name string, change func(*v1alpha1.PacketCapture) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.list[name].DeepCopy(); change(o) {
		c.list[name] = o
		c.Modify(o)
	}
	return nil
}

func (c *captures) status(name string) v1alpha1.PacketCaptureStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list[name].DeepCopy().Status
}

// begin adds a PacketCapture that the controller has assigned.
func (c *captures) begin(name string, spec v1alpha1.PacketCaptureSpec, at v1alpha1.CaptureAssigned) *v1alpha1.PacketCapture {
	o := &v1alpha1.PacketCapture{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: spec, Status: v1alpha1.PacketCaptureStatus{Assigned: &at}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list[name] = o
	c.Add(o)
	return o
}

// run captures on a Node until the returned function is called.
func (c *captures) run(n *netNode, dir string) (stop func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	var done sync.WaitGroup
	all := capturing.New(capturing.Options{Node: n.name, Dir: dir, PacketCaptures: c, Write: c.write, Clock: clock.RealClock{}, Log: n.log, Open: func() (k capturing.Capture, err error) {
		outer := n.host.Do(func() error { k, err = kernel.OpenCapture(); return nil })
		if outer != nil {
			err = outer
		}
		return k, err
	}})
	done.Go(func() { all.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

// packetsIn reads the packets of a file, which a stranger wrote for all that this function knows of
// pcapng: RFC draft-ietf-opsawg-pcapng, blocks of a kind and a size at both ends.
func packetsIn(t *testing.T, path string) (out [][]byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; len(b) > 0; at++ {
		if len(b) < 12 {
			t.Fatalf("%d bytes at the end", len(b))
		}
		kind, size := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint32(b[4:]))
		if size < 12 || size%4 != 0 || size > len(b) || int(binary.LittleEndian.Uint32(b[size-4:])) != size {
			t.Fatalf("block %d of %d bytes", at, size)
		}
		body := b[8 : size-4]
		switch {
		case at == 0:
			if kind != 0x0A0D0D0A || binary.LittleEndian.Uint32(body) != 0x1A2B3C4D {
				t.Fatalf("no section: %x", body)
			}
		case kind == 1:
			if at != 1 || binary.LittleEndian.Uint16(body) != 101 {
				t.Fatalf("interface %x", body)
			}
		case kind == 6:
			since := time.Unix(0, int64(uint64(binary.LittleEndian.Uint32(body[4:]))<<32|uint64(binary.LittleEndian.Uint32(body[8:]))))
			if time.Since(since).Abs() > time.Hour {
				t.Errorf("captured at %s", since)
			}
			n := int(binary.LittleEndian.Uint32(body[12:]))
			out = append(out, body[20:20+n])
		default:
			t.Fatalf("block of kind %d", kind)
		}
		b = b[size:]
	}
	return out
}

// TestPacketCapture captures what a Pod sends and gets.
func TestPacketCapture(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true})
	n := s.nodes[0]
	a, b := n.pod("free"), n.pod("free")
	c := &captures{FakeControllerSource: fcache.NewFakeControllerSource(), list: map[string]*v1alpha1.PacketCapture{}}
	dir := filepath.Join(t.TempDir(), "captures")
	stop := c.run(n, dir)
	is := func(name, reason string) func() bool {
		return func() bool {
			s := c.status(name)
			if reason == "" {
				return s.Condition(v1alpha1.PacketCaptureStarted) != nil
			}
			done := s.Condition(v1alpha1.PacketCaptureComplete)
			return done != nil && done.Reason == reason
		}
	}
	first := v1alpha1.CaptureConfig{FirstN: v1alpha1.CaptureFirstN{Number: 3}}
	port, tcp := int32(80), intstr.FromString("TCP")
	for _, six := range []bool{false, true} {
		name := "both"
		if six {
			name = "both6"
		}
		at := v1alpha1.CaptureAssigned{Node: n.name, SourceIP: a.family(six).String(), DestinationIP: b.family(six).String()}
		o := c.begin(name, v1alpha1.PacketCaptureSpec{CaptureConfig: first, Direction: v1alpha1.CaptureBoth,
			Packet: &v1alpha1.CapturePacket{Protocol: &tcp, TransportHeader: v1alpha1.CaptureTransport{TCP: &v1alpha1.CaptureTCP{CapturePorts: v1alpha1.CapturePorts{DstPort: &port}}}}}, at)
		n.eventually(name+" has begun", is(name, ""))
		// What does not match is not captured.
		s.reaches(a.Host, a.family(six), b.family(six), 81, patient)
		s.reaches(b.Host, b.family(six), a.family(six), 80, patient)
		s.reaches(a.Host, a.family(six), b.family(six), 80, patient)
		n.eventually(name+" is complete", is(name, "Succeed"))
		path := c.status(name).FilePath
		if c.status(name).NumberCaptured != 3 || !strings.HasPrefix(path, n.name+":"+dir) {
			t.Fatalf("%+v", c.status(name))
		}
		path = strings.TrimPrefix(path, n.name+":")
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		packets := packetsIn(t, path)
		if len(packets) != 3 {
			t.Fatalf("%d packets", len(packets))
		}
		for i, p := range packets { // SYN, its answer, and the answer to that
			header, source := 20, netip.AddrFrom4([4]byte(p[12:16]))
			if six {
				header, source = 40, netip.AddrFrom16([16]byte(p[8:24]))
			}
			want, flags := a.family(six), []byte{0x02, 0x12, 0x10}[i]
			if i == 1 {
				want = b.family(six)
			}
			if source != want || p[header+13]&0x12 != flags&0x12 {
				t.Errorf("packet %d: from %s, flags %x", i, source, p[header+13])
			}
		}
		if program, err := exec.LookPath("tcpdump"); err == nil { // a stranger reads it, where there is one
			said, err := exec.Command(program, "-nr", path).CombinedOutput()
			if err != nil || strings.Count(string(said), "Flags [S") != 2 {
				t.Errorf("tcpdump: %v: %s", err, said)
			}
		}
		// The file goes with its PacketCapture.
		c.Delete(o)
		n.eventually("the file is gone", func() bool { _, err := os.Stat(path); return os.IsNotExist(err) })
	}
	// One that gets no packets ends by its timeout; one for another Node is left alone.
	one := int32(1)
	at := v1alpha1.CaptureAssigned{Node: n.name, SourceIP: "192.0.2.1", DestinationIP: a.family(false).String(), AtDestination: true}
	c.begin("silent", v1alpha1.PacketCaptureSpec{CaptureConfig: first, Timeout: &one}, at)
	c.begin("elsewhere", v1alpha1.PacketCaptureSpec{CaptureConfig: first, Timeout: &one}, v1alpha1.CaptureAssigned{Node: "other"})
	n.eventually("it ends", is("silent", "Timeout"))
	if s := c.status("elsewhere"); len(s.Conditions) > 0 {
		t.Errorf("%+v", s)
	}
	// One that was cut off says so, and nothing is left in the kernel.
	c.begin("cut", v1alpha1.PacketCaptureSpec{CaptureConfig: first}, at)
	n.eventually("it has begun", is("cut", ""))
	stop()
	s.inside(n.host, func() error {
		table, err := kernel.Open(kernel.CaptureTable)
		if err != nil {
			return err
		}
		defer func() { _ = table.Close() }()
		if _, there, err := table.Revision(); err != nil || there {
			t.Errorf("the rules are there: %t %v", there, err)
		}
		return nil
	})
	stop = c.run(n, dir)
	defer stop()
	n.eventually("it says that it was cut off", is("cut", "AgentRestarted"))
}
