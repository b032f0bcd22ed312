package apiserver

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/infos"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// What hosts may send at most, in bytes: the request for a certificate, and what an agent tells
// about itself.
const (
	mostEnrolment = 16 << 10
	mostHostInfo  = 64 << 10
)

// hostGroup is the group of hosts with certificates. Neither it nor their names give any right.
const hostGroup = "nephele:hosts"

// Hosts are those that prove themselves by certificates of our own, of a Desk. Each is served what
// is computed for its own key, and takes no part in the cluster: kube-apiserver does not know it.
type Hosts struct {
	Desk *enroll.Desk
	// Client reads Nodes and ExternalNodes, from a cache if it likes, and writes AntreaAgentInfos.
	Client client.Client
	// Reader reads AntreaAgentInfos as they are now.
	Reader client.Reader
	// Members serves the streams of members of the set; nil if this is no hub.
	Members Members
}

// Members serves members of the set.
type Members interface {
	// ServeMember serves the stream of the member that is the Cluster with this name.
	ServeMember(w http.ResponseWriter, r *http.Request, cluster string)
}

// hostUser is a host that has shown a certificate. A user with the same name is not one.
type hostUser struct {
	user.DefaultInfo
	id credential.Identity
}

// hostOf returns the host that asks.
func hostOf(u user.Info) (*hostUser, bool) {
	h, ok := u.(*hostUser)
	return h, ok
}

// WithHosts returns an Access that takes those for hosts that show a certificate of theirs. They
// may do what agents do, for themselves, and nothing else, whatever the cluster says of their
// names.
func (a Access) WithHosts(d *enroll.Desk) Access {
	next, stranger := a.Authenticator, anonymous.NewAuthenticator(nil)
	a.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if r.URL.Path == credential.JoinPath { // a host with a token has no certificate yet
			return stranger.AuthenticateRequest(r)
		}
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			return next.AuthenticateRequest(r)
		}
		id, ours, err := d.Identify(r.Context(), r.TLS.PeerCertificates[0])
		if !ours {
			return next.AuthenticateRequest(r)
		}
		if err != nil {
			return nil, false, err
		}
		return &authenticator.Response{User: &hostUser{
			user.DefaultInfo{Name: "nephele:host:" + id.Host.String(), UID: string(id.UID), Groups: []string{user.AllAuthenticated, hostGroup}}, id,
		}}, true, nil
	})
	a.Authorizer = union.New(authorizer.AuthorizerFunc(func(_ context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
		h, ok := hostOf(r.GetUser())
		switch {
		case !ok:
			return authorizer.DecisionNoOpinion, "", nil
		case h.may(r):
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionDeny, "a host watches what is computed for it, and reports; a cluster speaks with its hub", nil
	}), a.Authorizer)
	own := dynamiccertificates.CAContentProvider(authoritiesOfHosts{d})
	if a.ClientCA != nil {
		own = dynamiccertificates.NewUnionCAContentProvider(a.ClientCA, own)
	}
	a.ClientCA = own
	return a
}

// authoritiesOfHosts are the authorities of a desk, published to callers as the authorities whose
// certificates the server accepts. It reports no changes: servers look every minute.
type authoritiesOfHosts struct{ desk *enroll.Desk }

// Name implements dynamiccertificates.CAContentProvider.
func (authoritiesOfHosts) Name() string { return "hosts" }

// AddListener implements dynamiccertificates.Notifier.
func (authoritiesOfHosts) AddListener(dynamiccertificates.Listener) {}

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (a authoritiesOfHosts) CurrentCABundleContent() []byte { return a.desk.Bundle() }

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (a authoritiesOfHosts) VerifyOptions() (x509.VerifyOptions, bool) {
	roots := x509.NewCertPool()
	ok := roots.AppendCertsFromPEM(a.desk.Bundle())
	return x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ok
}

// servedToHosts is the certificate for clients that ask by the name that hosts use for the server.
// It is read again every minute, so that it is replaced in time.
type servedToHosts struct {
	desk   *enroll.Desk
	failed func(error)
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (servedToHosts) Name() string { return "hosts" }

// AddListener implements dynamiccertificates.Notifier.
func (servedToHosts) AddListener(dynamiccertificates.Listener) {}

// SNINames implements dynamiccertificates.SNICertKeyContentProvider.
func (servedToHosts) SNINames() []string { return []string{credential.ServerName} }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (s servedToHosts) CurrentCertKeyContent() ([]byte, []byte) {
	cert, key, err := s.desk.Serve()
	if err != nil {
		s.failed(err) // the server goes on with the one before
		return nil, nil
	}
	return cert, key
}

// may reports whether a request is one that the agent of a host makes.
func (h *hostUser) may(r authorizer.Attributes) bool {
	if h.id.Host.IsCluster() {
		return !r.IsResourceRequest() && r.GetVerb() == "post" && (r.GetPath() == credential.RenewPath || r.GetPath() == credential.FeedPath)
	}
	if !r.IsResourceRequest() {
		return r.GetPath() == credential.RenewPath && r.GetVerb() == "post" || slices.Contains(healthPaths, r.GetPath())
	}
	resource, verb := r.GetResource(), r.GetVerb()
	if r.GetSubresource() != "" {
		resource += "/" + r.GetSubresource()
	}
	switch r.GetAPIGroup() {
	case v1beta2.GroupName:
		switch resource {
		case string(watchstore.NetworkPolicies), string(watchstore.AddressGroups), string(watchstore.AppliedToGroups):
			return verb == "list" || verb == "watch" // which of them is for the gate to decide
		case "networkpolicies/status", "nodestatssummaries":
			return verb == "create"
		}
	case analysis.GroupName:
		return resource == "trafficreports" && verb == "create"
	case v1beta1.GroupName:
		return resource == "antreaagentinfos" && (verb == "get" || verb == "update") && h.calls(r.GetName())
	}
	return false
}

// calls reports whether a name is one by which a host asks for its own info. It need not know which
// of the two that has.
func (h *hostUser) calls(name string) bool {
	return name == h.id.Host.Name || name == h.id.Host.InfoName()
}

// installHosts serves what hosts need besides the API.
func installHosts(generic *server.GenericAPIServer, o Options) {
	mux := generic.Handler.NonGoRestfulMux
	mux.HandleFunc(credential.JoinPath, o.Hosts.join)
	mux.HandleFunc(credential.RenewPath, o.Hosts.renew)
	if o.Hosts.Members != nil {
		mux.HandleFunc(credential.FeedPath, o.Hosts.feed)
	}
	mux.HandlePrefix(credential.InfosPath, http.HandlerFunc(o.Hosts.info))
}

// serving is the certificate for clients that ask by the name that hosts use for the server.
func (h *Hosts) serving(log logr.Logger) ([]dynamiccertificates.SNICertKeyContentProvider, error) {
	if _, _, err := h.Desk.Serve(); err != nil {
		return nil, fmt.Errorf("certificate for hosts: %w", err)
	}
	return []dynamiccertificates.SNICertKeyContentProvider{servedToHosts{h.Desk, func(err error) {
		log.Error(err, "The certificate for hosts was not renewed")
	}}}, nil
}

// staying makes the long requests of hosts end when their certificates do not count any more.
func (h *Hosts) staying(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, ok := request.UserFrom(r.Context()); ok {
			if host, is := hostOf(u); is {
				ctx, leave := h.Desk.Stay(r.Context(), host.id)
				defer leave()
				r = r.WithContext(ctx)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// join gives a host that proves itself otherwise its first certificate.
func (h *Hosts) join(w http.ResponseWriter, r *http.Request) {
	var asked credential.Asked
	if !readJSON(w, r, mostEnrolment, &asked) {
		return
	}
	// The peer of the connection; what a proxy says about the client is not trusted.
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		answerError(w, apierrors.NewInternalError(err))
		return
	}
	papers, err := h.Desk.Redeem(r.Context(), asked, from.Addr().Unmap())
	answer(w, papers, err)
}

// renew gives a host that shows a certificate its next one.
func (h *Hosts) renew(w http.ResponseWriter, r *http.Request) {
	host, ok := asker(r)
	if !ok {
		answerError(w, apierrors.NewUnauthorized("this is for hosts, which show their certificate"))
		return
	}
	var asked credential.Asked
	if !readJSON(w, r, mostEnrolment, &asked) {
		return
	}
	papers, err := h.Desk.Renew(r.Context(), host.id, []byte(asked.Request))
	answer(w, papers, err)
}

// feed serves the stream of a member of the set.
func (h *Hosts) feed(w http.ResponseWriter, r *http.Request) {
	host, ok := asker(r)
	if !ok || !host.id.Host.IsCluster() {
		answerError(w, apierrors.NewUnauthorized("this is for clusters of the set, which show their certificate"))
		return
	}
	h.Members.ServeMember(w, r, host.id.Host.Name)
}

func asker(r *http.Request) (*hostUser, bool) {
	u, ok := request.UserFrom(r.Context())
	if !ok {
		return nil, false
	}
	return hostOf(u)
}

var infoResource = schema.GroupResource{Group: v1beta1.GroupName, Resource: "antreaagentinfos"}

// info lets a host read and fill in its own AntreaAgentInfo. The host may not change what the
// controller has written there, nor the identity of the agent.
func (h *Hosts) info(w http.ResponseWriter, r *http.Request) {
	host, ok := asker(r)
	if !ok {
		answerError(w, apierrors.NewForbidden(infoResource, "", errors.New("here only hosts with certificates are served; ask kube-apiserver")))
		return
	}
	if name := strings.TrimPrefix(r.URL.Path, credential.InfosPath); !host.calls(name) {
		answerError(w, apierrors.NewNotFound(infoResource, name))
		return
	}
	info, err := h.ownInfo(r.Context(), host.id.Host)
	if err != nil || r.Method == http.MethodGet {
		answer(w, info, err)
		return
	}
	var said v1beta1.AntreaAgentInfo
	if !readJSON(w, r, mostHostInfo, &said) {
		return
	}
	info, err = h.fill(r.Context(), info, &said, host.id.Host)
	answer(w, info, err)
}

// ownInfo returns the info of a host as it is now. That of a namesake is not its own.
func (h *Hosts) ownInfo(ctx context.Context, host credential.Host) (*v1beta1.AntreaAgentInfo, error) {
	b, err := infos.List(ctx, h.Client)
	if err != nil {
		return nil, err
	}
	known := map[string]*v1beta1.AntreaAgentInfo{}
	var errs []error
	read := func(name string) *v1beta1.AntreaAgentInfo {
		if known[name] == nil {
			known[name] = &v1beta1.AntreaAgentInfo{}
			errs = append(errs, client.IgnoreNotFound(h.Reader.Get(ctx, client.ObjectKey{Name: name}, known[name])))
		}
		return known[name]
	}
	name := b.InfoName(host, func(n string) bool { return read(n).Name != "" }, func(n string) v1beta1.ObjectReference { return read(n).NodeRef })
	if name == "" {
		return nil, apierrors.NewForbidden(infoResource, host.Name, errors.New("a Node or an ExternalNode of another namespace has the same name"))
	}
	info := read(name)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if info.Name == "" {
		return nil, apierrors.NewNotFound(infoResource, name)
	}
	info.ManagedFields = nil
	return info, nil
}

// fill writes what a host says about itself, if the info is still the one that it has read.
func (h *Hosts) fill(ctx context.Context, info, said *v1beta1.AntreaAgentInfo, host credential.Host) (*v1beta1.AntreaAgentInfo, error) {
	if said.Name != info.Name || said.ResourceVersion == "" {
		return nil, apierrors.NewBadRequest("want the object as it was read, with its name and resourceVersion")
	}
	out := said.DeepCopy()
	out.ObjectMeta = *info.ObjectMeta.DeepCopy()
	out.ResourceVersion = said.ResourceVersion
	for _, key := range []string{cloudv1.LabelAllowIsolates, cloudv1.LabelHeedsCloud} {
		out.Labels = taken(out.Labels, said.Labels, key)
	}
	for _, key := range []string{cloudv1.AnnotationIsolates, cloudv1.AnnotationHostFailsafe, cloudv1.AnnotationForwards, cloudv1.AnnotationForeignFilters,
		cloudv1.AnnotationKernel} {
		out.Annotations = taken(out.Annotations, said.Annotations, key)
	}
	out.NodeRef = infos.NodeRef(host)
	if err := h.Client.Update(ctx, out); err != nil {
		return nil, err
	}
	return out, nil
}

// taken makes one entry what another map says of it.
func taken(into, from map[string]string, key string) map[string]string {
	value, ok := from[key]
	if !ok {
		delete(into, key)
		return into
	}
	if into == nil {
		into = map[string]string{}
	}
	into[key] = value
	return into
}

// readJSON reads a request of limited size. It is false if it has answered.
func readJSON(w http.ResponseWriter, r *http.Request, most int64, into any) bool {
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		answerError(w, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: r.URL.Path}, r.Method))
		return false
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		// By the case of names, as bodies are weighed.
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	}
	if err != nil {
		answerError(w, apierrors.NewBadRequest(err.Error()))
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		answerError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}

// answerError answers as the Kubernetes API does.
func answerError(w http.ResponseWriter, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError, Message: "the server failed to answer"}
	var known apierrors.APIStatus
	switch {
	case errors.Is(err, enroll.ErrRefused):
		status.Reason, status.Code, status.Message = metav1.StatusReasonForbidden, http.StatusForbidden, err.Error()
	case errors.As(err, &known):
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}
