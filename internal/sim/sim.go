// Package sim runs the cloud simulator as a server: one HTTP listener with the EC2, STS and SQS
// endpoints of all accounts and regions (package ec2) over one World (package world), and beside
// them admin endpoints below /_sim/. If the World has an Azure side, a second listener, with TLS,
// has Azure's login and Resource Manager (package arm).
//
// A Server owns its listener, its goroutines and, if it has one, its state file; Close ends all of
// them and waits. All methods may be called concurrently. The simulator knows nothing of the rest
// of the repository: it is the second opinion on what security groups do.
//
// # Behind the scenes
//
// The endpoints below /_sim/ answer JSON to callers on this machine, without authentication.
// account and region default to the first ones.
//
//   - GET /_sim/: simulated time, accounts with quotas, number of calls
//   - GET /_sim/state: everything, as a saved state
//   - GET /_sim/allowed?src=&dst=&proto=&port=: verdict and reason. src, dst: an address, an
//     interface id, an instance id or Name tag (srcvpc, dstvpc: where to look for an address).
//     proto: tcp (default), udp, icmp, icmpv6 or a number; type and code for ICMP
//   - GET /_sim/journal?after=SEQ&action=NAME: the latest 10000 calls in the order in which they
//     finished; DELETE forgets them
//   - GET /_sim/counts: number of calls by action
//   - GET, POST, DELETE /_sim/faults[?id=]: faults in force; add one; remove one or all
//   - POST /_sim/advance?by=1h: move the simulated time forward
//   - POST /_sim/visibility-delay?delay=2s: as the flag, from now on
//   - POST /_sim/effect-delay?delay=5s&seed=7: as the flags, from now on; edits on their way are in
//     force at once
//   - POST /_sim/quotas?account=: set quotas, e.g. {"rulesPerGroup": 10}
//   - POST /_sim/peering?id=&status=: change the status of a peering
//   - GET, POST, DELETE /_sim/queues[?account=&region=&name=]: queues with their depth; make one;
//     delete one (name: nephele-events)
//   - POST /_sim/event-delay?delay=5s: as the flag, from now on
//   - GET /_sim/services[?kind=]: native services with their interfaces
//   - GET /_sim/lookup?host=: the addresses of a service's host name
//   - GET /_sim/through?src=&dst=&proto=&port=: both hops of a flow to a balancer; parameters as
//     for allowed
//   - POST /_sim/failover?kind=&name=: another writer for a database-cluster or replication-group;
//     another interface and address for a database with multiZone
//   - POST /_sim/scale?kind=&name=&interfaces=: interfaces of a balancer per subnet; the oldest go
//     first
//   - POST /_sim/run: start an instance: {"subnet": "subnet-...", "groups": ["sg-..."], "name":
//     "web-3", "tags": {"app": "shop"}}
//   - POST /_sim/terminate: {"instances": ["i-..."]}
//   - POST /_sim/tags: {"resources": ["i-..."], "set": {"app": "shop"}, "remove": ["old"]}
//
// A fault names calls and what happens to them:
//
// console $ curl -X POST localhost:8555/_sim/faults -d '{"action": "CreateSecurityGroup", "nth": 2,
// "loseAnswer": true}'
//
//   - Which: action (* = any), service (rds, ec2, ...), account, region, params (wire parameters
//     with these values), from the nth matching call on (1) for times calls (1; -1 = for ever). In
//     Go also any predicate (Fault.Match).
//   - What: delay ("2s"), code with message and status (answered instead of executing), drop (cut
//     before the call is executed), loseAnswer (executed, then cut).
//
// # Assumptions that the planner shares
//
// Simulator and planner share no code, but what both assume about a cloud is tested by neither. So
// each assumption is listed with its source; a new one gets a line.
//
//   - VirtualNetwork (Azure) means the network, its peers, the host, what is behind gateways, and
//     prefixes of routes; only the simulator has learned routes.
//     learn.microsoft.com/azure/virtual-network/service-tags-overview,
//     learn.microsoft.com/azure/vpn-gateway/vpn-gateway-peering-gateway-transit
//   - A route 0.0.0.0/0 makes VirtualNetwork every address; Internet is what is outside without
//     default routes. Seen in 2019: codewithme.cloud/posts/2019/01/azure-nsg-virtualnetwork-tag
//   - Tags of services (Storage) have addresses that need not be known; only the simulator has
//     them. The first page.
//   - A rule of several application security groups works while one is empty. No source; Azure was
//     seen to ignore such a rule (MicrosoftDocs/azure-docs#77328), and so do our labs of Azure.
//   - Azure's default rules; the subnet's group comes first inbound and last outbound. Each side
//     has a list of its own.
//     learn.microsoft.com/azure/virtual-network/network-security-groups-overview,
//     learn.microsoft.com/azure/virtual-network/network-security-group-how-it-works
//   - Azure's probes come from 168.63.129.16; DNS, DHCP and metadata pass every group.
//     learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
//   - A group as a peer means the private addresses of its holders, in the network and across
//     peerings of the region. docs.aws.amazon.com: vpc/latest/userguide/security-group-rules.html,
//     vpc/latest/peering/vpc-peering-security-groups.html
//   - Effective routes: the simulator of EC2 asks route tables, the planner asks none.
//     docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html,
//     learn.microsoft.com/azure/virtual-network/virtual-networks-udr-overview
//   - NAT gateways have no group and rewrite what passes; an interface without groups is filtered
//     by nothing of ours. Neither side models NAT.
//     docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/ec2/nativeapi"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/events"
	"github.com/nephele-io/nephele/internal/sim/imds"
	"github.com/nephele-io/nephele/internal/sim/sqs"
	"github.com/nephele-io/nephele/internal/sim/statefile"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

// Options say what to simulate. The zero value of each field is a sensible default.
type Options struct {
	// State is the cloud to begin with (package estate loads one). It is ignored when StateFile
	// exists.
	State aws.State
	// StateFile, if set, keeps the state: it is read when it exists, and holds every change before
	// the call that made it is answered.
	StateFile string
	// Listen is the TCP address to serve on; "" means a free port of 127.0.0.1.
	Listen string

	// Clock is the base of the simulated time; nil means time.Now. Advance moves the simulated time
	// ahead of it.
	Clock func() time.Time
	// Seed drives the ids that the simulator makes up.
	Seed uint64
	// VisibilityDelay and TransitionDelay go into simworld.Options.
	VisibilityDelay time.Duration
	TransitionDelay time.Duration
	// Effects holds the effects of simworld.Options.
	Effects effect.Delay

	// NoAuth accepts any key and any signature.
	NoAuth bool
	// Latency is waited before each call is executed.
	Latency time.Duration
	// Throttle turns on the token buckets of EC2, refilled ThrottleSpeed times as fast as the real
	// ones (0 = 1).
	Throttle      bool
	ThrottleSpeed float64
	// Events say which queues get events, and how.
	Events EventOptions
	// JournalSize is how many calls the journal remembers; 0 means 10000.
	JournalSize int
	// OnCall sees every finished call before its answer leaves; see ec2.Config.
	OnCall func(context.Context, ec2.Call) error
	// Azure is about the Azure side.
	Azure AzureOptions
}

// EventOptions say how events about a region reach its queue.
type EventOptions struct {
	// Queue is the name of the queue that each region of each account has from the start and that
	// its events are put into. If it is empty, no queue is made, and events go into a queue named
	// DefaultEventQueue if a client creates one.
	Queue string
	// Delay is how long an event takes.
	Delay time.Duration
	// Copies is how often each event is delivered; 0 means once.
	Copies int
	// Shuffle hands messages out in a random order.
	Shuffle bool
}

// DefaultEventQueue is the name of the queue that events go into unless another one is given.
const DefaultEventQueue = "nephele-events"

const (
	defaultJournal = 10000
	closeGrace     = 2 * time.Second
)

// Server is a running simulator.
type Server struct {
	world    *simworld.World
	clock    *clock
	journal  *ec2.Journal
	faults   *ec2.Faults
	throttle *ec2.Throttle
	saver    *saver
	queues   *sqs.Queues
	emitter  *events.Emitter
	azure    *azureSide // nil if the world has no Azure
	signer   func() (*imds.Signer, error)
	attester func() (*imds.Attester, error)

	listener net.Listener
	http     *http.Server
	cancel   context.CancelFunc
	served   chan struct{}
	serveErr error

	calls    sync.RWMutex // held for reading by every call
	closed   bool         // guarded by calls
	closing  sync.Once
	closeErr error
}

// Start loads the world, opens the listener and serves until Close. ctx bounds the calls: when it
// is cancelled, calls that wait (latency, faults) are cut off; the server itself goes on until
// Close.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{clock: &clock{base: o.Clock}, faults: &ec2.Faults{}, served: make(chan struct{})}
	if o.Clock == nil {
		s.clock.base = time.Now
	}
	var err error
	s.signer = sync.OnceValues(func() (*imds.Signer, error) { return imds.NewSigner(s.Now()) })
	s.attester = sync.OnceValues(func() (*imds.Attester, error) { return imds.NewAttester(s.Now()) })
	if s.world, err = loadWorld(o, s.clock.now); err != nil {
		return nil, err
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("start the simulator: %w", err)
	}
	if o.StateFile != "" {
		if s.saver, err = newSaver(s.world, o.StateFile); err != nil {
			return nil, errors.Join(err, s.listener.Close())
		}
	}
	if o.Throttle {
		s.throttle = ec2.NewThrottle(s.clock.now, o.ThrottleSpeed)
	}
	size := o.JournalSize
	if size <= 0 {
		size = defaultJournal
	}
	s.journal = ec2.NewJournal(size)
	if err := s.emit(o); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	if s.azure, err = openAzure(ctx, s, o); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.serve(ctx, o)
	return s, nil
}

func loadWorld(o Options, now func() time.Time) (*simworld.World, error) {
	wo := simworld.Options{Clock: now, Seed: o.Seed, VisibilityDelay: o.VisibilityDelay, TransitionDelay: o.TransitionDelay,
		OperationDelay: o.Azure.OperationDelay, GraphLag: o.Azure.GraphLag, Effects: o.Effects}
	if o.StateFile != "" {
		_, err := os.Stat(o.StateFile)
		switch {
		case err == nil:
			w, err := statefile.Load(o.StateFile, wo)
			if err != nil {
				return nil, fmt.Errorf("load the state: %w", err)
			}
			return w, nil
		case !errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("load the state: %w", err)
		}
	}
	w, err := simworld.New(o.State, wo)
	if err != nil {
		return nil, fmt.Errorf("build the world: %w", err)
	}
	return w, nil
}

func (s *Server) serve(ctx context.Context, o Options) {
	handler := ec2.NewHandler(ec2.Config{
		World: s.world, Clock: s.clock.now, NoAuth: o.NoAuth, Latency: o.Latency,
		Throttle: s.throttle, Queues: s.queues, Faults: s.faults, Journal: s.journal, OnCall: s.onCall(o.OnCall),
	})
	mux := http.NewServeMux()
	mux.Handle("/_sim/", operator{s}.admin())
	mux.Handle("/{$}", handler)
	for _, prefix := range nativeapi.Prefixes() {
		mux.Handle(prefix, handler)
	}
	if s.azure != nil {
		// The metadata service has no TLS.
		mux.Handle("/metadata/", localOnly(s.azure.handler))
	}
	base, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	s.http = new(unused).of(&http.Server{
		Handler:           s.counted(mux),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
	})
	if s.azure != nil {
		s.azure.serve(s.counted(s.azure.handler), base)
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.serveErr = fmt.Errorf("serve the simulator: %w", err)
		}
	}()
}

// emit makes the queues and begins to fill them.
func (s *Server) emit(o Options) error {
	name := cmp.Or(o.Events.Queue, DefaultEventQueue)
	s.queues = sqs.New(sqs.Options{Clock: s.clock.now, Shuffle: o.Events.Shuffle, Seed: o.Seed})
	if o.Events.Queue != "" {
		for _, a := range s.world.Accounts() {
			for _, r := range s.world.Regions(a.ID) {
				if err := s.queues.Create(sqs.Ref{Account: a.ID, Region: r.Name, Name: name}, nil); err != nil {
					return fmt.Errorf("make the queue for events: %w", err)
				}
			}
		}
	}
	s.emitter = events.Watch(s.world, events.Options{
		Delay: o.Events.Delay, Copies: o.Events.Copies,
		Wanted: func(account, region string) bool {
			return s.queues.Exists(sqs.Ref{Account: account, Region: region, Name: name})
		},
		Send: func(account, region, body string, delay time.Duration) {
			// If the queue has gone just now the event is lost, as with a rule whose target is
			// gone.
			_, _ = s.queues.Send(sqs.Ref{Account: account, Region: region, Name: name}, body, delay)
		},
	})
	return nil
}

// onCall joins the state file and the caller's own hook.
func (s *Server) onCall(hook func(context.Context, ec2.Call) error) func(context.Context, ec2.Call) error {
	return func(ctx context.Context, c ec2.Call) error {
		if s.saver != nil {
			if err := s.saver.flush(); err != nil {
				return err
			}
		}
		if hook != nil {
			return hook(ctx, c)
		}
		return nil
	}
}

// counted lets Close wait for calls that http.Server gives up waiting for: it cuts their
// connection, but they run on.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.RLock()
		defer s.calls.RUnlock()
		if s.closed {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// URL is the endpoint of EC2, STS and SQS in every region. A server that listens on all addresses
// is named by a local one.
func (s *Server) URL() string {
	addr, ok := s.listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", addr.Port)
	}
	return "http://" + s.listener.Addr().String()
}

// World is the simulated cloud.
func (s *Server) World() *simworld.World { return s.world }

// Queues returns the queues of all accounts. A queue's URL is URL() and its Ref's Path.
func (s *Server) Queues() *sqs.Queues { return s.queues }

// SetEventDelay changes Options.Events.Delay for events from now on.
func (s *Server) SetEventDelay(d time.Duration) { s.emitter.SetDelay(d) }

// Journal holds the calls.
func (s *Server) Journal() *ec2.Journal { return s.journal }

// Faults are the faults in force; add to them to disturb calls.
func (s *Server) Faults() *ec2.Faults { return s.faults }

// Throttle is nil unless Options.Throttle is set.
func (s *Server) Throttle() *ec2.Throttle { return s.throttle }

// Now is the simulated time.
func (s *Server) Now() time.Time { return s.clock.now() }

// Advance moves the simulated time forward by d.
func (s *Server) Advance(d time.Duration) { s.clock.advance(d) }

// Done is closed when the server has stopped serving, by Close or because the listener failed.
func (s *Server) Done() <-chan struct{} { return s.served }

// Close cuts waiting calls off, lets the others finish for a moment, stops serving and writes the
// state file. It returns when everything has ended, with what went wrong at any time; further calls
// return the same.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.cancel()
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			s.closeErr = s.http.Close()
		}
		<-s.served
		if s.azure != nil {
			s.closeErr = errors.Join(s.closeErr, s.azure.close(ctx))
		}
		s.calls.Lock()
		s.closed = true
		s.calls.Unlock()
		s.emitter.Close()
		if s.saver != nil {
			s.closeErr = errors.Join(s.closeErr, s.saver.close())
		}
		s.closeErr = errors.Join(s.closeErr, s.serveErr)
	})
	return s.closeErr
}
