package console

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// shelf is a resource of the API server of the tests: objects by name, with a version, and watches.
type shelf struct {
	mu      sync.Mutex
	version int
	objects map[string]string
	log     []string // events, the nth of version n+1
	oldest  int      // of the versions from which one can watch
	refused bool
	opened  int // watches, all together
	open    int
	changed chan struct{}
	asked   []string
}

func (r *rig) shelf(path string) *shelf {
	s := &shelf{objects: map[string]string{}, changed: make(chan struct{})}
	r.cluster.on("GET "+path, s.serve)
	return s
}

func object(name string, version int, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d","managedFields":[{}],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","a":"b"}}%s}`,
		name, version, more)
}

func (s *shelf) change(kind, name, more string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := object(name, s.version, more)
	s.objects[name] = o
	if kind == "DELETED" {
		delete(s.objects, name)
	}
	s.log = append(s.log, fmt.Sprintf(`{"type":%q,"object":%s}`, kind, o))
	s.wake()
}

func (s *shelf) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// set changes what the shelf does, and ends all watches.
func (s *shelf) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.wake()
}

func (s *shelf) watches() (open, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.opened
}

func (s *shelf) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Header.Get("Authorization"))
	refused, oldest := s.refused, s.oldest
	s.mu.Unlock()
	if refused {
		status(w, http.StatusForbidden, "jane may not")
		return
	}
	q := r.URL.Query()
	if q.Get("watch") != "true" {
		s.list(w, q.Get("limit"), q.Get("continue"))
		return
	}
	var from int
	_, _ = fmt.Sscan(q.Get("resourceVersion"), &from)
	if from < oldest {
		_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}`)
		return
	}
	s.mu.Lock()
	s.open++
	s.opened++
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.open--; s.mu.Unlock() }()
	for {
		s.mu.Lock()
		lines, changed, end := s.log[min(from, len(s.log)):], s.changed, s.refused || s.oldest > oldest
		from = len(s.log)
		s.mu.Unlock()
		for _, l := range lines {
			_, _ = io.WriteString(w, l+"\n")
		}
		_ = http.NewResponseController(w).Flush()
		if end {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *shelf) list(w http.ResponseWriter, limit, next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for n := range s.objects {
		if n > next {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	var most int
	_, _ = fmt.Sscan(limit, &most)
	next = ""
	if len(names) > most {
		names = names[:most]
		next = names[most-1]
	}
	var items []string
	for _, n := range names {
		items = append(items, s.objects[n])
	}
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`, s.version, next, strings.Join(items, ","))
}

// names returns the names of the objects of a snapshot.
func (e event) names(t *testing.T) []string {
	t.Helper()
	if e.kind != "snapshot" {
		t.Fatalf("got %+v, want a snapshot", e)
	}
	out := []string{}
	for _, i := range e.data["items"].([]any) {
		out = append(out, i.(map[string]any)["metadata"].(map[string]any)["name"].(string))
	}
	return out
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestStream(t *testing.T) {
	r := newRig(t, nil)
	pods, nodes := r.shelf("/api/v1/pods"), r.shelf("/api/v1/nodes")
	for i := range 2*pageSize + 3 {
		pods.change("ADDED", fmt.Sprintf("p%05d", i), "")
	}
	nodes.refused = true
	if a := r.do("GET", "/api/stream?watch=pods", ""); a.code != http.StatusUnauthorized {
		t.Errorf("without a session: %d", a.code)
	}
	r.enterLocal()
	for _, bad := range []string{"", "watch=secrets", "watch=pods&namespace=..%2fx", "watch=pods&namespace=a&namespace=b"} {
		if a := r.do("GET", "/api/stream?"+bad, ""); a.code != http.StatusBadRequest {
			t.Errorf("%q: %d", bad, a.code)
		}
	}
	s := r.follow2("watch=pods&watch=pods&watch=nodes")
	got := map[string]event{}
	for range 2 {
		e := s.next()
		got[e.data["watch"].(string)] = e
	}
	if n := got["pods"].names(t); len(n) != 2*pageSize+3 || n[0] != "p00000" || n[len(n)-1] != "p01002" || len(got["pods"].data) != 2 {
		t.Errorf("the snapshot has %d", len(n))
	}
	first, _ := json.Marshal(got["pods"].data["items"].([]any)[0])
	if string(first) != `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a":"b"},"name":"p00000","resourceVersion":"1"}}` {
		t.Errorf("an object is %s", first)
	}
	if e := got["nodes"]; e.kind != "refused" || e.data["reason"] != "jane may not" {
		t.Errorf("what one may not see: %+v", e)
	}
	for _, kind := range []string{"ADDED", "MODIFIED", "DELETED"} {
		pods.change(kind, "new", `,"spec":{"x":"<&>"}`)
		e := s.next()
		o, _ := e.data["object"].(map[string]any)
		if e.kind != "change" || e.data["type"] != kind || o["spec"].(map[string]any)["x"] != "<&>" || o["metadata"].(map[string]any)["managedFields"] != nil {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	for _, who := range pods.asked {
		if who != "Bearer mine" {
			t.Errorf("asked as %q", who)
		}
	}
}

// TestExpiredWatch: where a watch cannot go on, there is a new snapshot.
func TestExpiredWatch(t *testing.T) {
	r := newRig(t, nil)
	pods := r.shelf("/api/v1/pods")
	pods.change("ADDED", "a", "")
	r.enterLocal()
	s := r.follow2("watch=pods")
	if n := s.next().names(t); !slices.Equal(n, []string{"a"}) {
		t.Errorf("at first %v", n)
	}
	pods.set(func() { // as if etcd was compacted: what came meanwhile is in no watch
		pods.objects["b"] = object("b", 9, "")
		pods.version, pods.oldest, pods.log = 9, 9, make([]string, 9)
	})
	if n := s.next().names(t); !slices.Equal(n, []string{"a", "b"}) {
		t.Errorf("then %v", n)
	}
	pods.change("DELETED", "a", "")
	if e := s.next(); e.data["type"] != "DELETED" {
		t.Errorf("and then %+v", e)
	}
}

// TestRightsEnd: a watch does not outlive the right to it.
func TestRightsEnd(t *testing.T) {
	r := newRig(t, nil)
	pods := r.shelf("/api/v1/pods")
	r.enterLocal()
	s := r.follow2("watch=pods")
	s.next()
	pods.set(func() { pods.refused = true })
	if e := s.next(); e.kind != "refused" {
		t.Errorf("got %+v", e)
	}
}

// TestOneWatchForAllTabs: streams of a session share watches; each has a snapshot of its own.
func TestOneWatchForAllTabs(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.StreamsPerSession = 3 })
	pods := r.shelf("/api/v1/pods")
	pods.change("ADDED", "a", "")
	r.enterLocal()
	var tabs []*stream
	for range 3 {
		s := r.follow2("watch=pods")
		s.next().names(t)
		tabs = append(tabs, s)
	}
	if a := r.do("GET", "/api/stream?watch=pods", ""); a.code != http.StatusTooManyRequests {
		t.Errorf("one more stream: %d", a.code)
	}
	pods.change("ADDED", "b", "")
	for i, s := range tabs {
		if e := s.next(); e.kind != "change" {
			t.Errorf("tab %d: %+v", i, e)
		}
	}
	if _, opened := pods.watches(); opened != 1 {
		t.Errorf("%d watches were opened", opened)
	}
	for _, s := range tabs {
		_ = s.body.Close()
	}
	eventually(t, "the watch goes on without anybody", func() bool { open, _ := pods.watches(); return open == 0 })
	eventually(t, "a stream can not be opened again", func() bool {
		res, err := r.browser.Get(r.http.URL + "/api/stream?watch=nodes")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// TestRefusedToAllTabs: a stream that joins a watch which was refused is told so, too.
func TestRefusedToAllTabs(t *testing.T) {
	r := newRig(t, nil)
	pods := r.shelf("/api/v1/pods")
	pods.refused = true
	r.enterLocal()
	for range 2 {
		s := r.follow2("watch=pods")
		if e := s.next(); e.kind != "refused" {
			t.Errorf("got %+v", e)
		}
	}
}

// TestSlowReader: a client that does not read loses the stream; nothing waits for it without bound.
func TestSlowReader(t *testing.T) {
	q := newQueue(1000)
	for range 5 {
		q.put(item{kind: "change", data: make([]byte, 100)})
	}
	if items, whole := q.take(); len(items) != 5 || !whole {
		t.Errorf("%d items, %v", len(items), whole)
	}
	for range 50 {
		q.put(item{kind: "change", data: make([]byte, 100)})
	}
	if items, whole := q.take(); len(items) != 0 || whole {
		t.Errorf("too much: %d items, %v", len(items), whole)
	}

	r := newRig(t, func(o *Options) { o.Limits.QueueBytes = 100_000; o.Limits.WriteTime = patience })
	pods := r.shelf("/api/v1/pods")
	r.enterLocal()
	res, err := r.browser.Get(r.http.URL + "/api/stream?watch=pods") // and nobody reads it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	fast := r.follow2("watch=pods")
	fast.next()
	big := `,"spec":"` + strings.Repeat("x", 50_000) + `"`
	var got int
	eventually(t, "the slow stream goes on", func() bool {
		pods.change("MODIFIED", "p", big)
		if e := fast.next(); e.kind == "change" {
			got++
		}
		who := r.only()
		who.feeds.mu.Lock()
		defer who.feeds.mu.Unlock()
		f := who.feeds.all[topic{name: "pods"}]
		f.mu.Lock()
		defer f.mu.Unlock()
		over := false
		for q := range f.to {
			q.mu.Lock()
			over = over || q.over
			q.mu.Unlock()
		}
		return over
	})
	pods.change("MODIFIED", "p", big)
	if e := fast.next(); e.kind != "change" {
		t.Errorf("the fast one, after %d changes: %+v", got, e)
	}
}

// only returns the one session that there is.
func (r *rig) only() *session {
	r.sessions.mu.Lock()
	defer r.sessions.mu.Unlock()
	for _, s := range r.sessions.all {
		return s
	}
	r.t.Fatal("there is no session")
	return nil
}

// TestNothingIsLeft: with the session its streams and watches end, and so do all goroutines.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	r := newRig(t, nil)
	pods, nodes := r.shelf("/api/v1/pods"), r.shelf("/api/v1/nodes")
	nodes.refused = true // one that waits for its next attempt
	page := r.enterLocal()
	var tabs []*stream
	for range 4 {
		s := r.follow2("watch=pods&watch=nodes&watch=services")
		s.next()
		tabs = append(tabs, s)
	}
	if a := r.do("POST", "/api/logout", "", page...); a.code != http.StatusNoContent {
		t.Fatalf("logout: %d", a.code)
	}
	for _, s := range tabs {
		s.ended()
	}
	eventually(t, "a watch goes on after the logout", func() bool { open, _ := pods.watches(); return open == 0 })
	r.http.CloseClientConnections()
	r.http.Close()
	r.Close()
	r.cluster.Close()
	r.browser.CloseIdleConnections()
	eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
}

// TestUsedByItsStream: a page that is open and only looks is in use.
func TestUsedByItsStream(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Ping = 5 * time.Millisecond })
	r.shelf("/api/v1/pods")
	r.enterLocal()
	r.follow2("watch=pods").next()
	for range 4 {
		r.clock.add(r.o.Limits.SessionIdle * 2 / 3)
		now := r.clock.Now()
		eventually(t, "the stream does not count", func() bool {
			r.sessions.mu.Lock()
			defer r.sessions.mu.Unlock()
			for _, s := range r.sessions.all {
				return !s.used.Before(now)
			}
			return false
		})
	}
	if a := r.do("GET", "/api/session", ""); a.code != http.StatusOK {
		t.Errorf("in use: %d", a.code)
	}
}
