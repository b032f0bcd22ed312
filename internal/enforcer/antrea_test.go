package enforcer_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// patience bounds every wait of the tests.
const patience = 20 * time.Second

// antrea stands in for an Antrea Controller: the watches and reports of its API, with bytes made by
// hand as they were recorded from one. It holds per key and resource what it has sent, naively.
type antrea struct {
	t      *testing.T
	server *httptest.Server

	mu sync.Mutex
	// books are what concerns a key, by "KEY/RESOURCE", in no order.
	books map[string][]runtime.Object
	// watches are the channels of frames of the watchers.
	watches map[string][]chan []byte
	// queries and accepts are the queries and Accept headers of the watches so far.
	queries, accepts []string
	// statuses are the reports, refuse is the status code with which the next ones are answered
	// instead.
	statuses []v1beta2.NetworkPolicyStatus
	refuse   int
	revision int
}

func newAntrea(t *testing.T) *antrea {
	t.Helper()
	a := &antrea{t: t, books: map[string][]runtime.Object{}, watches: map[string][]chan []byte{}}
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	a.server.EnableHTTP2 = true
	a.server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections are broken on purpose
	a.server.StartTLS()
	t.Cleanup(func() {
		a.disconnect()
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

func (a *antrea) config() (*rest.Config, error) {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})
	// A limit of time, as kubeconfigs of people may have it, must not end watches.
	return &rest.Config{Host: a.server.URL, Timeout: time.Nanosecond, QPS: 0.001, Burst: 1, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, nil
}

func (a *antrea) client(o enforcer.ClientOptions) *enforcer.Client {
	a.t.Helper()
	o.Config = a.config
	c, err := enforcer.NewClient(o)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func (a *antrea) serve(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/controlplane.antrea.io/v1beta2/")
	switch name, status := strings.CutSuffix(path, "/status"); {
	case !ok:
		http.NotFound(w, r)
	case status:
		a.take(w, r, strings.TrimPrefix(name, "networkpolicies/"))
	default:
		a.stream(w, r, path)
	}
}

func (a *antrea) stream(w http.ResponseWriter, r *http.Request, resource string) {
	key := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "nodeName=")
	at := key + "/" + resource
	frames := make(chan []byte, 1000)
	a.mu.Lock()
	a.queries, a.accepts = append(a.queries, r.URL.RawQuery), append(a.accepts, r.Header.Get("Accept"))
	for _, o := range a.books[at] {
		frames <- a.frame("ADDED", o)
	}
	frames <- a.frame("BOOKMARK", empty(resource))
	a.watches[at] = append(a.watches[at], frames)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	w.WriteHeader(http.StatusOK)
	for {
		select {
		case frame, open := <-frames:
			if !open {
				return
			}
			if _, err := w.Write(frame); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// take receives a report, whose bytes are looked at by hand as well.
func (a *antrea) take(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != 0 {
		http.Error(w, "refused", a.refuse)
		return
	}
	var s v1beta2.NetworkPolicyStatus
	raw, kind := opened(body)
	if err != nil || r.Method != http.MethodPost || kind != "NetworkPolicyStatus" || s.Unmarshal(raw) != nil || s.Name != name {
		a.t.Errorf("%s %s with %q, error %v: not a report", r.Method, r.URL, body, err)
	}
	a.statuses = append(a.statuses, s)
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	status, err := (&metav1.Status{Status: metav1.StatusSuccess}).Marshal()
	if err != nil {
		a.t.Error(err)
	}
	_, _ = w.Write(sealed("v1", "Status", status))
}

// change sends an event to the watchers, and keeps it for later ones.
func (a *antrea) change(key, resource, event string, o runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := key + "/" + resource
	a.books[at] = noted(a.t, a.books[at], event, o)
	a.tell(at, a.frame(event, o))
}

// tell needs mu.
func (a *antrea) tell(at string, frame []byte) {
	for _, frames := range a.watches[at] {
		frames <- frame
	}
}

// send sends an event without noting it.
func (a *antrea) send(key, resource, event string, o runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell(key+"/"+resource, a.frame(event, o))
}

// disconnect ends all watches.
func (a *antrea) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, all := range a.watches {
		for _, frames := range all {
			close(frames)
		}
		delete(a.watches, at)
	}
}

// begun counts the watches that were begun.
func (a *antrea) begun() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queries)
}

// reports returns what was reported, as text.
func (a *antrea) reports() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, s := range a.statuses {
		n := s.Nodes[0]
		out = append(out, fmt.Sprintf("%s %s %d %t %s", s.Name, n.NodeName, n.Generation, n.RealizationFailure, n.Message))
	}
	return out
}

func (a *antrea) answer(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = code
}

// frame is an event as it is on the wire. It needs mu.
func (a *antrea) frame(event string, o runtime.Object) []byte {
	a.revision++
	o = o.DeepCopyObject()
	o.(metav1.Object).SetResourceVersion(fmt.Sprint(a.revision))
	return frameOf(event, o)
}

func frameOf(event string, o runtime.Object) []byte {
	raw, err := o.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		panic(err)
	}
	kind := reflect.TypeOf(o).Elem().Name()
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), event)
	object := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), sealed("controlplane.antrea.io/v1beta2", kind, raw))
	body = protowire.AppendBytes(protowire.AppendTag(body, 2, protowire.BytesType), object)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// sealed wraps a message in the envelope that says what it is.
func sealed(version, kind string, raw []byte) []byte {
	meta := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), version)
	meta = protowire.AppendString(protowire.AppendTag(meta, 2, protowire.BytesType), kind)
	out := protowire.AppendBytes(protowire.AppendTag([]byte("k8s\x00"), 1, protowire.BytesType), meta)
	out = protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), raw)
	out = protowire.AppendString(protowire.AppendTag(out, 3, protowire.BytesType), "")
	return protowire.AppendString(protowire.AppendTag(out, 4, protowire.BytesType), "")
}

// opened is the reverse of sealed.
func opened(body []byte) (raw []byte, kind string) {
	field := func(b []byte, number protowire.Number) []byte {
		for len(b) > 0 {
			n, _, size := protowire.ConsumeTag(b)
			if size < 0 {
				return nil
			}
			v, length := protowire.ConsumeBytes(b[size:])
			if length < 0 {
				return nil
			}
			if n == number {
				return v
			}
			b = b[size+length:]
		}
		return nil
	}
	body, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		return nil, ""
	}
	return field(body, 2), string(field(field(body, 1), 2))
}

func empty(resource string) runtime.Object {
	switch resource {
	case "addressgroups":
		return &v1beta2.AddressGroup{}
	case "appliedtogroups":
		return &v1beta2.AppliedToGroup{}
	}
	return &v1beta2.NetworkPolicy{}
}

// noted returns the objects after an event, one after the other and member by member.
func noted(t *testing.T, book []runtime.Object, event string, o runtime.Object) []runtime.Object {
	name := o.(metav1.Object).GetName()
	at := slices.IndexFunc(book, func(b runtime.Object) bool { return b.(metav1.Object).GetName() == name })
	switch {
	case event == "DELETED":
		return slices.Delete(slices.Clone(book), at, at+1)
	case event == "ADDED":
		return append(book, o)
	case at < 0:
		t.Fatalf("%s of %s, which is not there", event, name)
	}
	next := book[at].DeepCopyObject()
	switch p := o.(type) {
	case *v1beta2.AddressGroupPatch:
		g := next.(*v1beta2.AddressGroup)
		g.GroupMembers = patched(g.GroupMembers, p.AddedGroupMembers, p.RemovedGroupMembers)
	case *v1beta2.AppliedToGroupPatch:
		g := next.(*v1beta2.AppliedToGroup)
		g.GroupMembers = patched(g.GroupMembers, p.AddedGroupMembers, p.RemovedGroupMembers)
	default:
		next = o
	}
	book = slices.Clone(book)
	book[at] = next
	return book
}

func patched(members, added, removed []v1beta2.GroupMember) []v1beta2.GroupMember {
	without := func(from []v1beta2.GroupMember, gone v1beta2.GroupMember) []v1beta2.GroupMember {
		return slices.DeleteFunc(slices.Clone(from), func(m v1beta2.GroupMember) bool {
			return reflect.DeepEqual(m.Pod, gone.Pod) && reflect.DeepEqual(m.ExternalEntity, gone.ExternalEntity) &&
				reflect.DeepEqual(m.Service, gone.Service) && reflect.DeepEqual(m.IPs, gone.IPs)
		})
	}
	for _, m := range added {
		members = append(without(members, m), m)
	}
	for _, m := range removed {
		members = without(members, m)
	}
	return members
}

// eventually waits until check finds nothing wrong.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// The stand-in speaks as the original: this frame was recorded from an Antrea Controller.
func TestStandInSpeaksAntrea(t *testing.T) {
	const golden = "0000007f0a084d4f44494649454412730a716b3873000a330a1e636f6e74726f6c706c616e652e616e747265612e696f2f7631626574613212114164647265737347726f75705061746368" +
		"12320a140a02673112001a0022002a026731320038004200121a0a060a017012016e1a1000000000000000000000ffff0a0000011a002200"
	patch := &v1beta2.AddressGroupPatch{ObjectMeta: metav1.ObjectMeta{Name: "g1", UID: "g1"}, AddedGroupMembers: []v1beta2.GroupMember{{
		Pod: &v1beta2.PodReference{Name: "p", Namespace: "n"}, IPs: []v1beta2.IPAddress{v1beta2.IPAddress(net.ParseIP("10.0.0.1"))},
	}}}
	if got := hex.EncodeToString(frameOf("MODIFIED", patch)); got != golden {
		t.Errorf("got\n%s, want\n%s", got, golden)
	}
}
