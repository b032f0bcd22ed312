package apiserver

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/weigh"
)

// How large a body may be, in bytes, by what it is. What is not named here is small.
const (
	smallBody  = 16 << 10
	statusBody = 64 << 10
	statsBody  = 256 << 10
	reviewBody = 640 << 10
)

// bodies are the bounds of what can be created, by resource and subresource.
var bodies = map[string]int64{
	"networkpolicies/status": statusBody, "supportbundlecollections/status": statusBody,
	"nodestatssummaries": statsBody, "nodelatencystats": statsBody, "trafficreports": analysis.MostReportedBytes,
	"flowreviews": reviewBody, "reachreviews": reviewBody, "effectiverules": reviewBody, "planreviews": reviewBody, "flowqueries": reviewBody,
}

const (
	// A body of n bytes may weigh weightPerByte times n plus weightAtOnce: what has more elements
	// than honest ones is not decoded. Beside the body itself, which is read twice, that keeps the
	// heap to eight times its bytes plus a megabyte.
	weightPerByte = 5
	weightAtOnce  = 256 << 10
	// heldBodies bounds the weight of all bodies that are being received or worked on, heldOfOne
	// the weight of one caller's.
	heldBodies = 96 << 20
	heldOfOne  = 16 << 20
	// bodyTime is how long a body may take to arrive.
	bodyTime = 30 * time.Second
)

// door weighs every body that is served before it is decoded.
type door struct {
	shares  *shares
	metrics *Metrics
	codecs  serializer.CodecFactory
	// open are paths with bounds of their own.
	open []string
	// resources are what can be created, by group, version, resource and subresource. Bodies are
	// taken at paths, too.
	resources map[string]*body
	paths     map[string]*body
}

// body is what is known of a body before it is read.
type body struct {
	most  int64
	scale weigh.Scale
	// kind and storage belong to a resource; empty for paths, which have no bodies of a kind.
	kind    schema.GroupVersionKind
	storage rest.Storage
}

// weighable are the packages whose Unmarshal makes exactly the room that lists take.
func weighable(pkg string) bool { return strings.HasPrefix(pkg, "github.com/nephele-io/nephele/api/") }

func newBody(most int64, value any) *body {
	return &body{most: most, scale: weigh.New(reflect.TypeOf(value).Elem(), weighable)}
}

func newDoor(o Options, codecs serializer.CodecFactory) *door {
	d := &door{
		codecs: codecs,
		shares: newShares(heldBodies, heldOfOne), metrics: o.Metrics, open: append(slices.Collect(maps.Keys(o.Webhooks)), credential.FeedPath),
		resources: map[string]*body{}, paths: map[string]*body{},
	}
	if o.Hosts != nil {
		d.paths[credential.JoinPath], d.paths[credential.RenewPath] = newBody(mostEnrolment, &credential.Asked{}), newBody(mostEnrolment, &credential.Asked{})
		d.paths[credential.InfosPath] = newBody(mostHostInfo, &v1beta1.AntreaAgentInfo{})
	}
	return d
}

// serves notes what can be created of the resources of an API group.
func (d *door) serves(gv schema.GroupVersion, storages map[string]rest.Storage, scheme *runtime.Scheme) error {
	for name, s := range storages {
		_, creates := s.(rest.Creater)
		if _, named := s.(rest.NamedCreater); !creates && !named {
			continue
		}
		most, known := bodies[name]
		if !known {
			most = smallBody
		}
		object := s.New()
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil {
			return fmt.Errorf("weigh %s: %w", name, err)
		}
		b := newBody(most, object)
		b.kind, b.storage = gv.WithKind(kinds[0].Kind), s
		d.resources[gv.String()+"/"+name] = b
	}
	return nil
}

// expected is what is known of the body of a request.
func (d *door) expected(r *http.Request) *body {
	at := r.URL.Path
	if strings.HasPrefix(at, credential.InfosPath) {
		at = credential.InfosPath
	}
	if b := d.paths[at]; b != nil {
		return b
	}
	if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest && info.Verb == "create" {
		name := path.Join(info.APIGroup, info.APIVersion, info.Resource, info.Subresource)
		if b := d.resources[name]; b != nil && b.isAt(info) {
			return b
		}
	}
	return &body{most: smallBody}
}

// isAt reports whether the path of a request is one at which this is created: with a Namespace if
// what is created has one, and with a name only if it is created under a name.
func (b *body) isAt(info *request.RequestInfo) bool {
	scope, scoped := b.storage.(rest.Scoper)
	_, named := b.storage.(rest.NamedCreater)
	return (info.Namespace != "") == (scoped && scope.NamespaceScoped()) && (info.Name != "") == named
}

// holder tells callers apart: by identity, and those without one, as hosts are that join, by
// address.
func holder(r *http.Request) string {
	if u, ok := request.UserFrom(r.Context()); ok && u.GetName() != user.Anonymous {
		return limits.Identity(u)
	}
	return limits.Origin(r.RemoteAddr).String()
}

// weighing lets only bodies pass that weigh no more than they may. The caller has been
// authenticated and authorized before.
func (d *door) weighing(next http.Handler, own func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || slices.Contains(d.open, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		held := &share{of: d.shares, who: holder(r), free: own != nil && own(r)}
		defer held.leave()
		b := d.expected(r)
		raw, err := d.read(w, r, b, held)
		if err != nil {
			d.metrics.limit("bodies")
			answerError(w, err)
			return
		}
		if b.storage != nil {
			d.create(w, r, b, raw)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		next.ServeHTTP(w, r)
	})
}

// read returns a body that may be decoded.
func (d *door) read(w http.ResponseWriter, r *http.Request, b *body, held *share) ([]byte, error) {
	size := r.ContentLength
	if size < 0 {
		size = b.most
	}
	if size > b.most {
		return nil, tooLarge(b.most)
	}
	if err := held.grow(size); err != nil {
		return nil, err
	}
	// Connections that know no deadlines do without.
	control := http.NewResponseController(w)
	timed := control.SetReadDeadline(time.Now().Add(bodyTime)) == nil
	var raw bytes.Buffer
	if r.ContentLength > 0 {
		raw.Grow(int(size) + bytes.MinRead)
	}
	switch n, err := raw.ReadFrom(io.LimitReader(r.Body, b.most+1)); {
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read the body: %v", err))
	case n > b.most:
		return nil, tooLarge(b.most)
	}
	if timed && r.Context().Err() == nil { // else there may be no connection any more
		_ = control.SetReadDeadline(time.Time{})
	}
	if b.scale == (weigh.Scale{}) || raw.Len() == 0 {
		return raw.Bytes(), nil
	}
	most := weightPerByte*raw.Len() + weightAtOnce
	weight, err := b.weight(r, raw.Bytes(), most)
	switch {
	case err != nil:
		return nil, err
	case weight > most:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the %d bytes have more elements than so few bytes may have", raw.Len()))
	}
	return raw.Bytes(), held.grow(int64(weight))
}

func tooLarge(most int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("at most %d bytes are taken here", most))
}

// weight is what a body weighs, which is to be decoded to what is expected and to nothing else.
func (b *body) weight(r *http.Request, raw []byte, most int) (int, error) {
	if b.kind.Empty() {
		return b.scale.JSON(raw, most), nil
	}
	media := r.Header.Get("Content-Type")
	if media != "" {
		var err error
		if media, _, err = mime.ParseMediaType(media); err != nil {
			return 0, apierrors.NewBadRequest(fmt.Sprintf("Content-Type: %v", err))
		}
	}
	switch media {
	case "", runtime.ContentTypeJSON:
		if kind, err := json.DefaultMetaFactory.Interpret(raw); err == nil { // else it is not decoded
			if err := b.fits(*kind); err != nil {
				return 0, err
			}
		}
		return b.scale.JSON(raw, most), nil
	case runtime.ContentTypeProtobuf:
		message, ok := bytes.CutPrefix(raw, []byte("k8s\x00"))
		var envelope runtime.Unknown
		if !ok || envelope.Unmarshal(message) != nil {
			return 0, apierrors.NewBadRequest("the body is no Kubernetes object in protocol buffers")
		}
		if err := b.fits(envelope.GroupVersionKind()); err != nil {
			return 0, err
		}
		return b.scale.Protobuf(envelope.Raw, most), nil
	}
	return 0, unsupported(media)
}

func unsupported(media string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("a body is %s or %s here, not %q", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, media),
	}}
}

// fits refuses other kinds than the expected one, to which the body would be decoded instead. What
// a body does not say is taken to be so.
func (b *body) fits(kind schema.GroupVersionKind) error {
	if kind.Kind != "" && kind.Kind != b.kind.Kind || (kind.Group != "" || kind.Version != "") && kind.GroupVersion() != b.kind.GroupVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is a %s of %s, want a %s of %s", kind.Kind, kind.GroupVersion(), b.kind.Kind, b.kind.GroupVersion()))
	}
	return nil
}

// shares bound what is held for callers, by weight.
type shares struct {
	most, mostEach int64

	mu   sync.Mutex
	all  int64
	each map[string]int64
}

func newShares(most, mostEach int64) *shares {
	return &shares{most: most, mostEach: mostEach, each: map[string]int64{}}
}

// share is what is held for one request. A free one counts nowhere.
type share struct {
	of   *shares
	who  string
	free bool
	held int64
}

// grow holds so much that the share is at least of that weight.
func (s *share) grow(to int64) error {
	more := to - s.held
	if s.free || more <= 0 {
		return nil
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	switch {
	case s.of.each[s.who]+more > s.of.mostEach:
		return busy("what you ask for at the same time is as large as may be")
	case s.of.all+more > s.of.most:
		return busy("what is asked for at the same time is as large as may be")
	}
	s.of.all += more
	s.of.each[s.who] += more
	s.held = to
	return nil
}

func busy(why string) error {
	return apierrors.NewTooManyRequests(why+"; try again later", int(limits.Retry/time.Second))
}

// leave gives back what is held.
func (s *share) leave() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.all -= s.held
	if s.of.each[s.who] -= s.held; s.of.each[s.who] == 0 {
		delete(s.of.each, s.who)
	}
	s.held = 0
}
