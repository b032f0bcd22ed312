package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/apiserver/bundle"
	"github.com/nephele-io/nephele/internal/apiserver/groups"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/roster"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// watchLife is how long a watch lasts at least, unless the client sets a limit; at most it is
	// twice that.
	watchLife = 2 * time.Hour
	// stopGrace bounds how long requests and watches may delay the end.
	stopGrace = 2 * time.Second
)

// Options are what a Server needs. All fields but Queries, Reviews, Statistics, Traffic,
// LocalPods, Enforcers, Version, Pod, Service, Node, Webhooks, Hosts, Metrics, Limits, Stall and
// Logger are required.
type Options struct {
	// Listener is where it serves, over TCP. It is closed when Start returns.
	Listener net.Listener
	// Certificate is what it serves with.
	Certificate *serving.Certificate
	// Access decides about callers; see Delegated.
	Access Access
	// Store holds what is served. It need not be open yet.
	Store *watchstore.Store
	// Reports takes the statuses that enforcers post.
	Reports Reports
	// Queries answers questions about groups and Pods; nil does not serve any.
	Queries Queries
	// Reviews answers reviews; nil does not serve any.
	Reviews Reviews
	// Statistics adds up what enforcers count; nil serves no statistics.
	Statistics *stats.Book
	// Traffic takes what enforcers have seen of connections, about which FlowQueries ask Reviews;
	// nil serves neither.
	Traffic Traffic
	// LocalPods holds which Pods run on which Node; nil serves none.
	LocalPods *roster.Index
	// EgressGroups are which Pods Egresses apply to; nil serves none.
	EgressGroups EgressGroups
	// Bundle makes support bundles; nil serves none.
	Bundle bundle.Write
	// Enforcers says for which enforcers a caller may act; empty means OwnKey.
	Enforcers EnforcerAccess
	// Version of the controller, the Pod and the Node that it runs in, and the Service that leads
	// to it, as the API reports them.
	Version      string
	Pod, Service types.NamespacedName
	Node         string
	// Process names the process where there is no Pod.
	Process string
	// LogLevel is how much the process logs; nil if nobody may ask or change it.
	LogLevel LogLevel
	// Webhooks serve paths beside the API. Every caller may ask them, because kube-apiserver does
	// not prove its identity unless it is configured to; or only the callers that
	// Access.AsksWebhooks recognizes. A caller may learn from them which tiers and groups there
	// are, and nothing else; they change nothing. It may be empty.
	Webhooks map[string]http.Handler
	// Hosts are those with certificates of our own, which Access.WithHosts recognizes; nil for
	// none.
	Hosts *Hosts
	// Metrics holds the metrics of Store; they may be nil.
	Metrics *Metrics
	// Limits bound what is held for callers.
	Limits limits.Limits
	// Stall is how long a client of a watch may take to receive what was written before it is cut
	// off; 0 means a minute.
	Stall  time.Duration
	Logger logr.Logger
}

// LogLevel is how much a process logs. It is safe for concurrent use.
type LogLevel interface {
	Verbosity() int
	SetVerbosity(v int)
}

// Server is the API server. See the package comment; use New.
type Server struct {
	Options
	generic *server.GenericAPIServer
}

// asked returns the authorizer of the API with the paths of the webhooks open. The cluster is not
// asked about an anonymous caller: such a caller may read the health paths and nothing else.
func asked(o Options) (authorizer.Authorizer, error) {
	paths, err := path.NewAuthorizer(slices.Sorted(maps.Keys(o.Webhooks)))
	if err != nil {
		return nil, fmt.Errorf("open the webhooks: %w", err)
	}
	open := authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if asks := o.Access.AsksWebhooks; asks != nil && (a.GetUser() == nil || !asks(a.GetUser())) {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return paths.Authorize(ctx, a)
	})
	strangers := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if u := a.GetUser(); u == nil || u.GetName() != user.Anonymous || !a.IsResourceRequest() && slices.Contains(healthPaths, a.GetPath()) {
			return authorizer.DecisionNoOpinion, "", nil
		}
		if o.Hosts != nil && !a.IsResourceRequest() && a.GetPath() == credential.JoinPath {
			return authorizer.DecisionAllow, "", nil // a token is shown there
		}
		return authorizer.DecisionDeny, "an anonymous caller may not do this", nil
	})
	return union.New(open, strangers, o.Access.Authorizer), nil
}

// askers returns the authenticator of the API. Where every caller may ask the webhooks, a
// certificate that we cannot verify is no reason to refuse the caller there: kube-apiserver shows
// one to every webhook if it is configured to, and its issuer does not concern us.
func (o Options) askers() authenticator.Request {
	if o.Access.AsksWebhooks != nil {
		return o.Access.Authenticator
	}
	stranger := anonymous.NewAuthenticator(nil)
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		answer, ok, err := o.Access.Authenticator.AuthenticateRequest(r)
		if _, open := o.Webhooks[r.URL.Path]; open && err != nil {
			return stranger.AuthenticateRequest(r)
		}
		return answer, ok, err
	})
}

// New returns a server that does not serve before Start.
func New(o Options) (*Server, error) {
	if o.Listener == nil || o.Certificate == nil || o.Access.Authenticator == nil || o.Access.Authorizer == nil || o.Store == nil || o.Reports == nil {
		return nil, errors.New("API server: Listener, Certificate, Access, Store and Reports must be given")
	}
	o.Limits = o.Limits.WithDefaults()
	scheme, err := groups.Serving()
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	d := newDoor(o, codecs)
	config, err := genericConfig(o, codecs, d)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	generic, err := config.Complete(nil).New("nephele", server.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	for at, handler := range o.Webhooks {
		generic.Handler.NonGoRestfulMux.Handle(at, o.Metrics.countingReviews(handler))
	}
	// The default is the request timeout, a minute, which any open connection would use up.
	generic.ShutdownTimeout = stopGrace
	if o.Hosts != nil {
		installHosts(generic, o)
	}
	if err := install(generic, o, scheme, codecs, d); err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return &Server{o, generic}, nil
}

func genericConfig(o Options, codecs serializer.CodecFactory, d *door) (*server.Config, error) {
	external, err := groups.External()
	if err != nil {
		return nil, err
	}
	access, err := asked(o)
	if err != nil {
		return nil, err
	}
	c := server.NewConfig(codecs)
	c.SecureServing = &server.SecureServingInfo{
		Listener:      limits.Listen(o.Listener, o.Limits, o.Metrics.limit),
		Cert:          o.Certificate.Pair(),
		ClientCA:      o.Access.ClientCA,
		MinTLSVersion: tls.VersionTLS12,
	}
	if o.Hosts != nil {
		if c.SecureServing.SNICerts, err = o.Hosts.serving(o.Logger); err != nil {
			return nil, err
		}
	}
	c.ExternalAddress = o.Listener.Addr().String()
	c.Authentication.Authenticator = o.askers()
	c.Authorization.Authorizer = access
	// Nothing in this server calls itself, so it has no all-powerful token for that.
	c.LoopbackClientConfig = &restclient.Config{}
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	c.EnableProfiling = false
	c.MinRequestTimeout = int(watchLife / time.Second)
	c.ShutdownWatchTerminationGracePeriod = stopGrace
	long := c.LongRunningFunc
	c.LongRunningFunc = func(r *http.Request, info *request.RequestInfo) bool {
		return r.URL.Path == credential.FeedPath || long != nil && long(r, info)
	}
	c.BuildHandlerChainFunc = func(h http.Handler, c *server.Config) http.Handler {
		if o.Hosts != nil {
			h = o.Hosts.staying(h)
		}
		bounds := limits.Requests{Limits: o.Limits, Stall: o.Stall, Own: o.Access.OwnRequest, Refused: o.Metrics.limit}
		return limits.Handle(server.DefaultBuildHandlerChain(d.weighing(h, o.Access.OwnRequest), c), bounds)
	}
	namer := openapi.NewDefinitionNamer(external)
	c.OpenAPIConfig = server.DefaultOpenAPIConfig(groups.OpenAPI(external), namer)
	c.OpenAPIV3Config = server.DefaultOpenAPIV3Config(groups.OpenAPI(external), namer)
	c.OpenAPIConfig.Info.Title, c.OpenAPIV3Config.Info.Title = "Nephele", "Nephele"
	c.ReadyzChecks = append(c.ReadyzChecks, healthz.NamedCheck("policies-computed", func(*http.Request) error { return o.computed() }))
	if ready := o.Access.Ready; ready != nil {
		c.ReadyzChecks = append(c.ReadyzChecks, healthz.NamedCheck("callers-recognized", func(*http.Request) error { return ready() }))
	}
	return c, nil
}

// computed says what is missing until there is something to serve.
func (o Options) computed() error {
	_, _, err := o.Store.Get(watchstore.NetworkPolicies, "")
	return err
}

// Ready says what is missing until the server can answer everybody, as its path /readyz does.
func (s *Server) Ready() error {
	err := s.computed()
	if ready := s.Access.Ready; ready != nil {
		err = errors.Join(err, ready())
	}
	return err
}

// Start serves until ctx ends. It may be called once. It is a manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	var renewal sync.WaitGroup
	defer renewal.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewal.Go(func() {
		failed := func(err error) {
			s.Logger.Error(err, "Renewing the serving certificate failed, trying again later", "stack", recovered.StackOf(err))
		}
		recovered.Repeat(ctx, clock.RealClock{}, failed, func() { s.Certificate.Keep(ctx, failed) })
	})
	if err := s.generic.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	return nil
}
