package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/clusterset/outbox"
	"github.com/nephele-io/nephele/internal/clusterset/pulse"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// mostWrong is how many lines that are no records are read of a member before the stream ends.
	mostWrong = 100
	// bytesPerSecond is how much a member may send; a member that sends more waits.
	bytesPerSecond, bytesAtOnce = 8 << 20, 32 << 20
	// writeLimit is how long a member may take to receive what was written.
	writeLimit = time.Minute
)

// mostAskedAtOnce is how many questions go into one record, which have mostQuestion bytes together
// at most. So has a single one.
const mostAskedAtOnce, mostQuestion = 8, wire.MostLine / 2

// session is one stream of a member.
type session struct {
	news chan struct{}

	// The lock of the Hub guards these.
	out    *outbox.Outbox
	synced bool
	// listed says that a whole listing has come in this session.
	listed bool
	why    string
	// labels are to be told; nil if they were.
	labels map[string]string
	// refused is what was last told to be not believed, refusing says that it is to be told.
	refused  string
	refusing bool
	// taken are the regions of accounts that the member was asked to leave alone; nil before.
	// yielding says that this is to be sent.
	taken    *wire.Taken
	yielding bool
	// questions are to be asked, asked are the callers that wait for an answer.
	questions []wire.Question
	asked     map[uint64]chan wire.Answer
}

// wake makes the session tell what is new. A nil session is none.
func (s *session) wake() {
	if s != nil {
		wake(s.news)
	}
}

// relabel makes the session tell other labels.
func (s *session) relabel(labels map[string]string) {
	if s != nil {
		s.labels = maps.Clone(labels)
		if s.labels == nil {
			s.labels = map[string]string{}
		}
		s.wake()
	}
}

// refuse makes the session tell what is not believed, if that is new.
func (s *session) refuse(c *metav1.Condition) {
	words := ""
	if c != nil && c.Status == metav1.ConditionTrue {
		words = c.Message
	}
	if s != nil && s.refused != words {
		s.refused, s.refusing = words, true
		s.wake()
	}
}

// yield makes the session tell which regions of accounts are others', if that is new.
func (s *session) yield(taken *wire.Taken) {
	if s == nil || !s.listed || s.taken != nil && maps.Equal(s.taken.By, taken.By) && slices.Equal(s.taken.Unheard, taken.Unheard) {
		return
	}
	s.taken, s.yielding = taken, true
	s.wake()
}

// end ends the session, and tells the member why. The caller holds the lock.
func (s *session) end(why string) {
	if s != nil {
		s.why = why
		s.wake()
	}
}

// ServeMember serves the stream of the member that the certificate names, until it ends.
func (h *Hub) ServeMember(w http.ResponseWriter, r *http.Request, cluster string) {
	if r.Method != http.MethodPost || r.ProtoMajor < 2 {
		http.Error(w, "want POST over HTTP/2: what is sent and what is answered are one stream", http.StatusBadRequest)
		return
	}
	select {
	case <-h.ready:
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the hub has just begun; try again", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	if err := out.Flush(); err != nil {
		return
	}
	send := func(d *wire.Down) error {
		_ = out.SetWriteDeadline(time.Now().Add(writeLimit)) // where there is none, silence ends it
		if err := wire.Write(w, d); err != nil {
			return err
		}
		return out.Flush()
	}
	var over <-chan time.Time
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 { // it counts no longer than it lasts
		timer := h.Clock.NewTimer(r.TLS.PeerCertificates[0].NotAfter.Sub(h.Clock.Now()))
		defer timer.Stop()
		over = timer.C()
	}
	heard := pulse.Watch(ctx, h.Clock, cancel)
	in := wire.NewReader(&paced{ctx, r.Body, rate.NewLimiter(bytesPerSecond, bytesAtOnce)})
	first := make(chan error, 1)
	var up wire.Up
	go func() { first <- in.Read(&up) }()
	select {
	case err := <-first:
		if err != nil || up.Hello == nil {
			_ = send(&wire.Down{End: "want a hello first"})
			return
		}
	case <-ctx.Done():
		return
	}
	s, welcome := h.admit(cluster, up.Hello)
	if err := send(&wire.Down{Welcome: welcome}); err != nil || s == nil {
		return
	}
	defer h.leave(cluster, s)
	h.Log.Info("A member is connected", "cluster", cluster, "version", up.Hello.Program, "from", r.RemoteAddr)
	var writing sync.WaitGroup
	// What a member makes panic ends its stream, and nothing else.
	writing.Go(func() {
		cancel(h.survive(cluster, s, func() error { h.write(ctx, cluster, s, send); return nil }))
	})
	ended := make(chan error, 1)
	go func() { ended <- h.survive(cluster, s, func() error { return h.listen(ctx, cluster, s, in, heard) }) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-over:
		err = errors.New("the certificate of the member has ended")
	}
	cancel(nil)
	writing.Wait()
	h.Log.Info("The stream of a member has ended", "cluster", cluster, "reason", fmt.Sprint(err))
}

// survive makes an error of a panic. Half of a record may count then, so the next stream begins
// with everything.
func (h *Hub) survive(cluster string, s *session, do func() error) error {
	err := recovered.Call(do)
	if stack := recovered.StackOf(err); stack != "" {
		h.Log.Error(err, "A panic was recovered", "stack", stack)
		h.complain(cluster, s, "its stream made the hub panic")
	}
	return err
}

// admit begins a session, in the place of any other of the member. It is nil if the two do not
// understand each other.
func (h *Hub) admit(cluster string, hello *wire.Hello) (*session, *wire.Welcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	welcome := &wire.Welcome{Version: min(hello.Version, wire.Version), Program: h.Program, Epoch: h.Epoch, Cluster: cluster}
	m := h.clusters[cluster]
	switch {
	case m == nil:
		welcome.Version, welcome.Error = 0, "the hub has no Cluster of this name"
	case hello.Oldest > wire.Version || hello.Version < wire.Oldest:
		welcome.Error = fmt.Sprintf("the hub speaks versions %d to %d, the member %d to %d: upgrade the older one", wire.Oldest, wire.Version, hello.Oldest, hello.Version)
		welcome.Version = 0
		m.wrong = welcome.Error
	}
	if welcome.Error != "" {
		return nil, welcome
	}
	m.session.end("the member has connected anew")
	welcome.Labels = m.cluster.Labels
	hello.Program, hello.ClusterID, hello.Epoch = wire.OneLine(hello.Program, 64), wire.OneLine(hello.ClusterID, 64), wire.OneLine(hello.Epoch, 64)
	known := m.out != nil && (m.session != nil || h.Clock.Since(m.left) < resumeFor)
	if known && hello.Stream != "" && hello.Stream == m.stream && m.out.Resume(hello.Heard) {
		welcome.Resumed, welcome.Taken = true, m.taken
	} else {
		m.out, m.taken = outbox.New(cluster), 0
	}
	h.lastStream++
	m.stream = fmt.Sprintf("%s/%d", h.Epoch, h.lastStream)
	welcome.Stream = m.stream
	s := &session{news: make(chan struct{}, 1), out: m.out, asked: map[uint64]chan wire.Answer{}}
	now := h.Clock.Now()
	m.session, m.hello, m.since, m.heard, m.wrong = s, hello, now, now, ""
	h.around(cluster)
	return s, welcome
}

// leave ends a session.
func (h *Hub) leave(cluster string, s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.unreachable()
	if m := h.clusters[cluster]; m != nil && m.session == s {
		m.session, m.left = nil, h.Clock.Now()
		h.around(cluster)
	}
}

// write tells the member what is new until ctx ends.
func (h *Hub) write(ctx context.Context, cluster string, s *session, send func(*wire.Down) error) {
	ticker := h.Clock.NewTicker(pulse.Beat)
	defer ticker.Stop()
	for {
		for {
			d := h.next(cluster, s)
			if d == nil {
				break
			}
			if err := send(d); err != nil || d.End != "" || ctx.Err() != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.news:
		case <-ticker.C():
			if send(&wire.Down{Beat: true}) != nil {
				return
			}
		}
	}
}

// next is what to tell a member next; nil if there is nothing.
func (h *Hub) next(cluster string, s *session) *wire.Down {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.why != "" {
		return &wire.Down{End: s.why}
	}
	m := h.clusters[cluster]
	if m == nil {
		return &wire.Down{End: "the Cluster of this member is gone"}
	}
	if s.labels != nil {
		labels := s.labels
		s.labels = nil
		return &wire.Down{Labels: &labels}
	}
	if s.refusing {
		s.refusing = false
		told := []string{}
		if s.refused != "" {
			told = append(told, s.refused)
		}
		return &wire.Down{Refused: &told}
	}
	if s.yielding {
		s.yielding = false
		return &wire.Down{Taken: s.taken}
	}
	if asked := s.toAsk(); len(asked) > 0 {
		return &wire.Down{Questions: asked}
	}
	d := s.out.Next(h.view(m), outbox.Wanted{Policies: h.sendable(cluster, func(uid string) bool { return s.out.Has(uid) }), Asked: m.asked})
	s.synced = s.out.Synced() && d == nil
	return d
}

// listen takes over what the member tells until the stream ends.
func (h *Hub) listen(ctx context.Context, cluster string, s *session, in *wire.Reader, heard func()) error {
	wrong := 0
	for {
		var up wire.Up
		err := in.Read(&up)
		switch {
		case errors.Is(err, wire.ErrLine):
			if wrong++; wrong > mostWrong {
				return errors.New("too much of it is no record")
			}
			h.complain(cluster, s, err.Error())
			continue
		case err != nil:
			return err
		}
		heard()
		if err := h.pace(ctx, cluster, &up); err != nil {
			return err
		}
		if !h.apply(cluster, s, &up) {
			return errors.New("another stream of the member has begun")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// apply takes over one record; false if the session does not count any more.
func (h *Hub) apply(cluster string, s *session, up *wire.Up) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.clusters[cluster]
	if m == nil || m.session != s {
		return false
	}
	m.heard = h.Clock.Now()
	if up.Beat {
		return true
	}
	m.taken = cmp.Or(up.Sequence, m.taken)
	if wrong := h.union.Apply(cluster, up); len(wrong) > 0 {
		m.wrong = wire.OneLine(wrong[0], 256)
	}
	if s.listed = s.listed || up.Listed; up.Listed || len(up.Interests)+len(up.GoneInterests) > 0 {
		h.commitNow() // so that groups are answered with their members
		for i := range up.Interests {
			s.out.Ask(up.Interests[i].Group)
		}
		h.grant(m)
		s.wake()
	}
	s.answered(up.Answers)
	h.reported(m, up.Realizations)
	h.counted(m, up.Counted)
	if len(up.Answers) == 0 {
		wake(h.commits)
	}
	return true
}

func (h *Hub) complain(cluster string, s *session, wrong string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.clusters[cluster]; m != nil && m.session == s {
		m.wrong = wire.OneLine(wrong, 256)
		m.stream = "" // what was lost comes with the next listing
	}
}

// paced reads no faster than may be.
type paced struct {
	ctx   context.Context
	in    interface{ Read([]byte) (int, error) }
	limit *rate.Limiter
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if n > 0 {
		if wait := p.limit.WaitN(p.ctx, n); wait != nil {
			return n, wait
		}
	}
	return n, err
}
