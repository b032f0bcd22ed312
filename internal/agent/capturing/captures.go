package capturing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	lookInterval = 500 * time.Millisecond
	writeLimit   = 5 * time.Second
	// maxFile bounds a file, and maxFiles all of a Node.
	maxFile  = 8 << 20
	maxFiles = 64 << 20
	// maxWaiting bounds the packets that were captured and are not written yet.
	maxWaiting = 1024
	suffix     = ".pcapng"
)

// Reasons of conditions, as Antrea has them where it has some.
const (
	reasonStarted = "Started"
	reasonSucceed = "Succeed"
	reasonTimeout = "Timeout"
	reasonFailed  = "CaptureFailed"
	reasonTooMuch = "TooManyBytes"
	reasonCutOff  = "AgentRestarted"
)

// Capture captures packets; a kernel.Capture does.
type Capture interface {
	Set(list []kernel.Chosen) error
	Run(each func(kernel.Captured)) error
	Close()
}

// Options are what Captures need.
type Options struct {
	Node string
	// Dir is where the files are, which only the administrator may read.
	Dir string
	// PacketCaptures lists and watches the PacketCaptures of the cluster.
	PacketCaptures cache.ListerWatcher
	// Write changes the status of a PacketCapture, as it is now, by change; if that returns false
	// nothing is written.
	Write func(ctx context.Context, name string, change func(*v1alpha1.PacketCapture) bool) error
	// Open opens what captures in the kernel of the Node.
	Open  func() (Capture, error)
	Clock clock.WithTicker
	Log   logr.Logger
}

// Captures follows the PacketCaptures of a cluster.
type Captures struct {
	Options
	store   cache.Store
	run     cache.Controller
	changes chan struct{}
	packets chan kernel.Captured

	running map[types.UID]*running
	capture Capture
	set     []kernel.Chosen
	swept   bool
	problem string
}

// running is a PacketCapture that runs, or has run.
type running struct {
	of      *v1alpha1.PacketCapture
	began   time.Time
	path    string
	file    *os.File
	size    int
	packets int32
	// reason tells that it is over, and why; message says more.
	reason, message string
	// published is what the API server has: 1 that it has begun, 2 that it is over.
	published int
}

// New returns what follows PacketCaptures once it runs.
func New(o Options) *Captures {
	c := &Captures{Options: o, changes: make(chan struct{}, 1), packets: make(chan kernel.Captured, maxWaiting), running: map[types.UID]*running{}}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { c.wake() }, UpdateFunc: func(any, any) { c.wake() }, DeleteFunc: func(any) { c.wake() }}
	c.store, c.run = cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: &v1alpha1.PacketCapture{}, Handler: handler, ListerWatcher: o.PacketCaptures})
	return c
}

func (c *Captures) wake() {
	select {
	case c.changes <- struct{}{}:
	default:
	}
}

// Run follows PacketCaptures until ctx ends.
func (c *Captures) Run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { c.run.RunWithContext(ctx) })
	defer c.close()
	tick := c.Clock.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		turn := func() { c.look(ctx) }
		select {
		case <-ctx.Done():
			for _, r := range c.running {
				c.end(r, reasonCutOff, "")
			}
			return
		case p := <-c.packets:
			turn = func() { c.take(p) }
		case <-c.changes:
		case <-tick.C():
			if len(c.running) == 0 && c.swept {
				continue
			}
		}
		if fault := recovered.Do(turn); fault != nil {
			c.Log.Error(fault, "A panic was recovered while packets were captured", "stack", recovered.StackOf(fault))
		}
	}
}

func (c *Captures) close() {
	if c.capture != nil {
		c.capture.Close()
	}
	c.capture, c.set = nil, nil
}

// pathOf is where the file of a PacketCapture is. The UID keeps the name from leading elsewhere.
func (c *Captures) pathOf(uid types.UID) string {
	return filepath.Join(c.Dir, strings.ReplaceAll(string(uid), "/", "_")+suffix)
}

// look does what is to be done now.
func (c *Captures) look(ctx context.Context) {
	if !c.run.HasSynced() {
		return
	}
	now, there := c.Clock.Now(), map[types.UID]bool{}
	for _, o := range c.store.List() {
		f, ok := o.(*v1alpha1.PacketCapture)
		if !ok || f.Status.Assigned == nil || f.Status.Assigned.Node != c.Node {
			continue
		}
		there[f.UID] = true
		r := c.running[f.UID]
		if r == nil && !f.Status.Over() {
			r = &running{of: f, began: now, path: c.pathOf(f.UID)}
			c.running[f.UID] = r
			if f.Status.Condition(v1alpha1.PacketCaptureStarted) != nil { // a former process has begun it
				r.packets = f.Status.NumberCaptured
				c.end(r, reasonCutOff, "the agent has started anew meanwhile: what it had captured is not complete")
			} else {
				c.begin(r)
			}
		}
		if r != nil {
			r.of = f
			if r.published == 2 && f.Status.Over() {
				delete(c.running, f.UID)
			}
		}
	}
	for uid, r := range c.running {
		timeout := time.Duration(v1alpha1.DefaultCaptureSeconds) * time.Second
		if t := r.of.Spec.Timeout; t != nil {
			timeout = time.Duration(*t) * time.Second
		}
		switch {
		case !there[uid]:
			c.end(r, reasonFailed, "")
			delete(c.running, uid)
		case r.reason == "" && now.Sub(r.began) >= timeout:
			c.end(r, reasonTimeout, fmt.Sprintf("%d of %d packets came within %s", r.packets, r.of.Spec.CaptureConfig.FirstN.Number, timeout))
		}
	}
	c.sweep(there)
	c.choose()
	c.publish(ctx)
}

// begin opens the file of a PacketCapture.
func (c *Captures) begin(r *running) {
	err := os.MkdirAll(c.Dir, 0o700)
	var total int64
	if err == nil {
		total, err = c.total()
	}
	if err == nil && total+maxFile > maxFiles {
		err = fmt.Errorf("the files of PacketCaptures on the Node have %d MiB, and no more than %d: delete some PacketCaptures", total>>20, maxFiles>>20)
	}
	if err == nil {
		r.file, err = os.OpenFile(r.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if err == nil {
		_, err = r.file.Write(fileHeader())
	}
	if err != nil {
		c.end(r, reasonFailed, err.Error())
	}
}

// total is how many bytes all files have, and those that are being written may get.
func (c *Captures) total() (int64, error) {
	list, err := os.ReadDir(c.Dir)
	if err != nil {
		return 0, err
	}
	var out int64
	for _, e := range list {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		out += info.Size()
	}
	for _, r := range c.running {
		if r.file != nil {
			out += int64(maxFile - r.size)
		}
	}
	return out, nil
}

// end ends a PacketCapture.
func (c *Captures) end(r *running, reason, message string) {
	if r.file != nil {
		if err := r.file.Close(); err != nil && message == "" {
			reason, message = reasonFailed, err.Error()
		}
		r.file = nil
	}
	if r.reason == "" {
		r.reason, r.message = reason, message
	}
}

// sweep removes the files of PacketCaptures that are not there any more.
func (c *Captures) sweep(there map[types.UID]bool) {
	list, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.report(err)
		return
	}
	keep := map[string]bool{}
	for uid := range there {
		keep[filepath.Base(c.pathOf(uid))] = true
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), suffix) && !keep[e.Name()] {
			if err := os.Remove(filepath.Join(c.Dir, e.Name())); err != nil {
				c.report(err)
			}
		}
	}
	c.swept = true
}

func (c *Captures) report(err error) {
	if text := err.Error(); text != c.problem {
		c.problem = text
		c.Log.Error(err, "Packets are not captured as they should be")
	}
}

// choose says which packets are captured.
func (c *Captures) choose() {
	var want []kernel.Chosen
	for _, r := range c.running {
		if r.reason == "" {
			want = append(want, chosen(r.of)...)
		}
	}
	slices.SortFunc(want, func(a, b kernel.Chosen) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port)) })
	if len(want) == 0 {
		c.close()
		return
	}
	if reflect.DeepEqual(want, c.set) {
		return
	}
	err := c.open()
	if err == nil {
		err = c.capture.Set(want)
	}
	if err != nil {
		c.refused(err)
		return
	}
	c.set = want
}

// refused ends the PacketCaptures that the kernel does not take by themselves either. The others go
// on at the next look.
func (c *Captures) refused(all error) {
	for _, r := range c.running {
		err := all
		if c.capture != nil && r.reason == "" {
			err = c.capture.Set(chosen(r.of))
		}
		if err != nil {
			c.end(r, reasonFailed, err.Error())
		}
	}
	c.close()
	c.wake()
}

func (c *Captures) open() error {
	if c.capture != nil {
		return nil
	}
	capture, err := c.Open()
	if err != nil {
		return err
	}
	c.capture = capture
	go func() {
		err := capture.Run(func(p kernel.Captured) {
			p.Packet = bytes.Clone(p.Packet)
			select {
			case c.packets <- p:
			default:
			}
		})
		if err != nil {
			c.Log.Error(err, "Packets are not captured any more until no PacketCapture runs")
		}
	}()
	return nil
}

// chosen are the packets of a PacketCapture.
func chosen(f *v1alpha1.PacketCapture) []kernel.Chosen {
	at := f.Status.Assigned
	source, _ := netip.ParseAddr(at.SourceIP)
	destination, _ := netip.ParseAddr(at.DestinationIP)
	there := kernel.Chosen{ID: string(f.UID), Sent: !at.AtDestination, Source: source, Destination: destination, Six: source.Is6() || destination.Is6()}
	if p := f.Spec.Packet; p != nil {
		there.Protocol = protocolOf(p, there.Six)
		var ports *v1alpha1.CapturePorts
		if p.TransportHeader.TCP != nil {
			ports = &p.TransportHeader.TCP.CapturePorts
		} else if p.TransportHeader.UDP != nil {
			ports = p.TransportHeader.UDP
		}
		if ports != nil && ports.SrcPort != nil {
			there.SourcePort = uint16(*ports.SrcPort)
		}
		if ports != nil && ports.DstPort != nil {
			there.Port = uint16(*ports.DstPort)
		}
	}
	back := there
	back.Sent, back.Source, back.Destination, back.SourcePort, back.Port = !there.Sent, there.Destination, there.Source, there.Port, there.SourcePort
	switch f.Spec.Direction {
	case v1alpha1.CaptureDestinationToSource:
		return []kernel.Chosen{back}
	case v1alpha1.CaptureBoth:
		return []kernel.Chosen{there, back}
	}
	return []kernel.Chosen{there}
}

func protocolOf(p *v1alpha1.CapturePacket, six bool) uint8 {
	switch {
	case p.TransportHeader.TCP != nil:
		return 6
	case p.TransportHeader.UDP != nil:
		return 17
	case p.Protocol == nil:
		return 0
	}
	name := p.Protocol.StrVal
	if name == "ICMP" && six {
		name = "ICMPv6"
	}
	return cmp.Or(map[string]uint8{"TCP": 6, "UDP": 17, "ICMP": 1, "ICMPv6": 58}[name], uint8(p.Protocol.IntVal))
}

// take writes a packet.
func (c *Captures) take(p kernel.Captured) {
	r := c.running[types.UID(p.ID)]
	if r == nil || r.file == nil || r.reason != "" {
		return
	}
	if p.At.IsZero() {
		p.At = c.Clock.Now()
	}
	b := packetOf(p.At, p.Packet, lengthOf(p.Packet))
	if r.size+len(b) > maxFile {
		c.end(r, reasonTooMuch, fmt.Sprintf("a file has %d MiB at most", maxFile>>20))
		c.wake()
		return
	}
	if _, err := r.file.Write(b); err != nil {
		c.end(r, reasonFailed, err.Error())
		c.wake()
		return
	}
	r.size += len(b)
	if r.packets++; r.packets >= r.of.Spec.CaptureConfig.FirstN.Number {
		c.end(r, reasonSucceed, "")
		c.wake()
	}
}

// publish writes how PacketCaptures stand.
func (c *Captures) publish(ctx context.Context) {
	for uid, r := range c.running {
		state := 1
		if r.reason != "" {
			state = 2
		}
		if r.published >= state {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, writeLimit)
		err := c.Write(ctx, r.of.Name, func(f *v1alpha1.PacketCapture) bool {
			s, now := &f.Status, metav1.NewTime(c.Clock.Now())
			if f.UID != uid || s.Assigned == nil || s.Assigned.Node != c.Node || s.Over() {
				return false
			}
			s.NumberCaptured = r.packets
			if r.packets > 0 || r.reason == "" {
				s.FilePath = c.Node + ":" + r.path
			}
			s.Set(v1alpha1.PacketCaptureStarted, metav1.ConditionTrue, reasonStarted, "", now)
			if r.reason != "" {
				status := metav1.ConditionTrue
				if r.reason == reasonFailed || r.reason == reasonCutOff {
					status = metav1.ConditionFalse
				}
				s.Set(v1alpha1.PacketCaptureComplete, status, r.reason, r.message[:min(len(r.message), 1024)], now)
			}
			return true
		})
		cancel()
		if err != nil {
			c.report(fmt.Errorf("PacketCapture %s: %w", r.of.Name, err))
			continue
		}
		r.published = state
	}
}
