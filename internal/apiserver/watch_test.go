package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/seed"
)

// next returns the next event of a watch.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return e
	case <-time.After(patience):
		t.Fatal("no event")
	}
	panic("unreachable")
}

// open begins a watch with parameters, given as name and value.
func (w *world) open(t *testing.T, contentType, resource string, params ...string) watch.Interface {
	t.Helper()
	r := w.client(t, "agent", contentType).Get().Resource(resource).Param("watch", "true")
	for i := 0; i < len(params); i += 2 {
		r = r.Param(params[i], params[i+1])
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s, err := r.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func TestWatchTellsWholeObjectsThenChanges(t *testing.T) {
	t.Parallel()
	for name, contentType := range encodings {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill()
			s := w.open(t, contentType, "appliedtogroups", "fieldSelector", "nodeName=a")
			e := next(t, s)
			if g, ok := e.Object.(*v1beta2.AppliedToGroup); !ok || e.Type != watch.Added || len(g.GroupMembers) != 1 || g.GroupMembers[0].Pod.Name != "p1" {
				t.Fatalf("got %v", e)
			}
			e = next(t, s)
			if g, ok := e.Object.(*v1beta2.AppliedToGroup); !ok || e.Type != watch.Bookmark || g.Name != "" || g.ResourceVersion == "" || g.Annotations != nil {
				t.Fatalf("got %v", e)
			}
			w.store.Publish(watchstore.Changes{AppliedToGroups: []watchstore.GroupChange{{
				Name: "atg", UID: "atg", Added: []watchstore.Member{pod(4, "b"), pod(5, "a")}, Removed: []watchstore.Member{pod(1, "a")},
			}}})
			e = next(t, s)
			p, ok := e.Object.(*v1beta2.AppliedToGroupPatch)
			if !ok || e.Type != watch.Modified || len(p.AddedGroupMembers) != 1 || len(p.RemovedGroupMembers) != 1 || p.AddedGroupMembers[0].Pod.Name != "p5" {
				t.Fatalf("got %v", e)
			}
			w.store.Publish(watchstore.Changes{AppliedToGroups: []watchstore.GroupChange{{Name: "atg", UID: "atg", SpanRemoved: []string{"a"}}}})
			if e = next(t, s); e.Type != watch.Deleted || e.Object.(*v1beta2.AppliedToGroup).Name != "atg" {
				t.Fatalf("got %v", e)
			}
		})
	}
}

func TestWatchOfOneObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	s := w.open(t, runtime.ContentTypeProtobuf, "networkpolicies", "fieldSelector", "metadata.name=u2")
	if e := next(t, s); e.Type != watch.Bookmark {
		t.Fatalf("got %v", e)
	}
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("u1", 2), policyChange("u2", 1, "a")}})
	if e := next(t, s); e.Type != watch.Added || e.Object.(*v1beta2.NetworkPolicy).Name != "u2" {
		t.Fatalf("got %v", e)
	}
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{gone("u2")}})
	if e := next(t, s); e.Type != watch.Deleted || e.Object.(*v1beta2.NetworkPolicy).SourceRef.Name != "policy-u2" {
		t.Fatalf("got %v", e)
	}
}

func TestBookmarkMarksTheEndOfWhatThereWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	s := w.open(t, "", "networkpolicies", "sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan", "allowWatchBookmarks", "true")
	if e := next(t, s); e.Type != watch.Added {
		t.Fatalf("got %v", e)
	}
	e := next(t, s)
	if e.Type != watch.Bookmark || e.Object.(*v1beta2.NetworkPolicy).Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Fatalf("got %v", e)
	}
}

// A watch goes on from a list or a bookmark if nothing has happened since; from anywhere else it is
// refused.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	ctx := context.Background()
	c := w.client(t, "agent", "")
	var list v1beta2.NetworkPolicyList
	if err := c.Get().Resource("networkpolicies").Do(ctx).Into(&list); err != nil {
		t.Fatal(err)
	}
	s := w.open(t, "", "networkpolicies", "resourceVersion", list.ResourceVersion)
	bookmark := next(t, s)
	if bookmark.Type != watch.Bookmark || bookmark.Object.(*v1beta2.NetworkPolicy).ResourceVersion != list.ResourceVersion {
		t.Fatalf("got %v, want a bookmark at %s", bookmark, list.ResourceVersion)
	}
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("u2", 1, "a")}})
	added := next(t, s)
	if added.Type != watch.Added {
		t.Fatalf("got %v", added)
	}
	for _, position := range []string{list.ResourceVersion, added.Object.(*v1beta2.NetworkPolicy).ResourceVersion, "1", "99999999"} {
		_, err := c.Get().Resource("networkpolicies").Param("watch", "true").Param("resourceVersion", position).MaxRetries(0).Watch(ctx)
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("from %s: %v, want 410", position, err)
		}
	}
	if e := next(t, w.open(t, "", "networkpolicies", "resourceVersion", "0")); e.Type != watch.Added {
		t.Errorf("from 0: %v", e)
	}
}

// An agent gets the bytes of an Antrea Controller, but for the resource version.
func TestBytesOfAWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.Publish(watchstore.Changes{AddressGroups: []watchstore.GroupChange{{Name: "g1", UID: "g1", SpanAdded: []string{"a"}}}})
	r, err := w.client(t, "agent", "").Get().Resource("addressgroups").Param("watch", "true").Param("fieldSelector", "nodeName=a").
		SetHeader("Accept", "application/vnd.kubernetes.protobuf, */*").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	frame := func() string {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, int(head[2])<<8|int(head[3]))
		if _, err := io.ReadFull(r, body); err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(head[:]) + hex.EncodeToString(body)
	}
	for _, want := range []string{"ADDED", "BOOKMARK"} {
		if got := frame(); !strings.Contains(got, hex.EncodeToString([]byte(want))) {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	w.store.Publish(watchstore.Changes{AddressGroups: []watchstore.GroupChange{{Name: "g1", UID: "g1", Added: []watchstore.Member{&watchstore.GivenMember{
		GroupMember: v1beta2.GroupMember{Pod: &v1beta2.PodReference{Name: "p", Namespace: "n"}, IPs: []v1beta2.IPAddress{v1beta2.IPAddress(net.ParseIP("10.0.0.1"))}},
	}}}}})
	// The resource version is one byte here ("6"), which lengthens four nested messages by one;
	// otherwise this is the frame recorded from an Antrea Controller.
	const want = "000000800a084d4f44494649454412740a726b3873000a330a1e636f6e74726f6c706c616e652e616e747265612e696f2f7631626574613212114164647265737347726f75705061746368" +
		"12330a150a02673112001a0022002a02673132013638004200121a0a060a017012016e1a1000000000000000000000ffff0a0000011a002200"
	if got := frame(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// churn publishes random changes: groups and policies of ten names, members on three nodes.
type churn struct {
	random *rand.Rand
	groups map[string]map[int]watchstore.Member
	spans  map[string]map[string]bool
}

func newChurn(seed uint64) *churn {
	return &churn{random: rand.New(rand.NewPCG(seed, 0)), groups: map[string]map[int]watchstore.Member{}, spans: map[string]map[string]bool{}}
}

// span draws the enforcers that an object concerns from now on, and returns what changes.
func (c *churn) span(name string) (added, removed []string) {
	if c.spans[name] == nil {
		c.spans[name] = map[string]bool{}
	}
	for _, key := range []string{"a", "b", "ns/vm"} {
		has := c.random.IntN(3) > 0
		switch {
		case has && !c.spans[name][key]:
			added = append(added, key)
		case !has && c.spans[name][key]:
			removed = append(removed, key)
		}
		c.spans[name][key] = has
	}
	return added, removed
}

func (c *churn) group(name string) watchstore.GroupChange {
	out := watchstore.GroupChange{Name: name}
	if c.groups[name] != nil && c.random.IntN(5) == 0 {
		out.Deleted = true
		delete(c.groups, name)
		delete(c.spans, name)
		return out
	}
	if c.groups[name] == nil {
		c.groups[name] = map[int]watchstore.Member{}
	}
	out.SpanAdded, out.SpanRemoved = c.span(name)
	for range 3 {
		i := c.random.IntN(12)
		if m := c.groups[name][i]; m != nil {
			out.Removed = append(out.Removed, m)
			delete(c.groups[name], i)
			continue
		}
		m := pod(i, []string{"a", "b", "ns/vm"}[c.random.IntN(3)])
		c.groups[name][i] = m
		out.Added = append(out.Added, m)
		return out
	}
	return out
}

func (c *churn) step(generation int64) watchstore.Changes {
	name := fmt.Sprint("x", c.random.IntN(10))
	switch c.random.IntN(3) {
	case 0:
		return watchstore.Changes{AddressGroups: []watchstore.GroupChange{c.group("ag-" + name)}}
	case 1:
		return watchstore.Changes{AppliedToGroups: []watchstore.GroupChange{c.group("atg-" + name)}}
	}
	p := policyChange(name, generation)
	if c.spans[name] != nil && c.random.IntN(4) == 0 {
		p.Removed = true
		delete(c.spans, name)
	} else {
		p.SpanAdded, p.SpanRemoved = c.span(name)
	}
	return watchstore.Changes{Policies: []watchstore.PolicyChange{p}}
}

// Agents stay in sync while objects come, change and go, while connections break anywhere, and
// through restarts of the server.
func TestAgentsStayInSync(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	w := newWorld(t)
	network := newWire(t, w.address)
	var agents []*agent
	for _, key := range churned() {
		for _, contentType := range encodings {
			agents = append(agents, newAgent(t, key, contentType, network.config(w)))
		}
	}
	c := newChurn(seed)
	check := w.client(t, "agent", runtime.ContentTypeProtobuf)
	for round := range 4 {
		for i := range 400 {
			w.store.Publish(c.step(int64(1000*round + i)))
			if round == 1 && c.random.IntN(40) == 0 {
				network.cut()
			}
		}
		for _, a := range agents {
			eventually(t, "in sync", func() error { return a.inSync(t.Context(), check) })
		}
		if round == 2 {
			// The same address and the same authority: the certificate of a restarted controller.
			w.restart(t)
		}
	}
	for _, a := range agents {
		for _, s := range a.Streams() {
			if s.Begun < 3 {
				t.Errorf("%s of %q began %d watches, want more after the cuts and the restart", s.Resource, a.Key(), s.Begun)
			}
		}
	}
	eventually(t, "one watch per agent and resource", func() error {
		if n := watching(w.store); n != 3*len(agents) {
			return fmt.Errorf("%d watch", n)
		}
		return nil
	})
}

// A client that does not read is cut off, by the store and on the network, and nobody else notices.
func TestSlowWatcherDelaysNobody(t *testing.T) {
	t.Parallel()
	store := watchstore.New(watchstore.Options{MaxPending: 50})
	w := &world{store: store, reports: &reportBook{}, dir: t.TempDir(), stall: 500 * time.Millisecond}
	w.start(t, "127.0.0.1:0")
	store.Publish(watchstore.Changes{})
	conn, err := tls.Dial("tcp", w.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET /apis/%s/networkpolicies?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer agent\r\n\r\n", v1beta2.GroupVersion()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	quick := w.open(t, runtime.ContentTypeProtobuf, "networkpolicies")
	if e := next(t, quick); e.Type != watch.Bookmark {
		t.Fatalf("got %v", e)
	}
	eventually(t, "both watch", func() error {
		if n := store.Watchers(watchstore.NetworkPolicies); n != 2 {
			return fmt.Errorf("%d watch", n)
		}
		return nil
	})
	large := strings.Repeat("x", 1<<16)
	for i := 0; store.Watchers(watchstore.NetworkPolicies) > 1; i++ {
		if i > 2000 {
			t.Fatal("the client that does not read was not cut off")
		}
		p := policyChange(fmt.Sprint("u", i), 1, "a")
		p.Policy.Rules[0].Name = large
		store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{p}})
		if e := next(t, quick); e.Object.(*v1beta2.NetworkPolicy).Name != p.Policy.Name {
			t.Fatalf("got %v", e)
		}
	}
	// The server closes the connection although nobody reads: then it no longer takes what is
	// written.
	eventually(t, "the connection is closed", func() error {
		if _, err := conn.NetConn().Write([]byte{0}); err == nil {
			return errors.New("it is open")
		}
		return nil
	})
	// The other one may be idle for longer than a client may stall.
	time.Sleep(2 * w.stall)
	store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{gone("u0")}})
	if e := next(t, quick); e.Type != watch.Deleted {
		t.Fatalf("got %v", e)
	}
}
