package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// readyPoll is how often readiness is looked at while the API server comes up.
	readyPoll = 50 * time.Millisecond
	// renewalPeriod is how often certificates are checked for their end.
	renewalPeriod = 12 * time.Hour
	// clockSlack is how far the clock may have been set back since the keys were made.
	clockSlack = time.Hour
	// startUpLimit bounds how long Stop waits for an API server that is still coming up.
	startUpLimit = time.Minute
)

// errStopped is why a control plane is not running when Stop has been called.
var errStopped = errors.New("the control plane has been stopped")

// ControlPlane is a running control plane.
type ControlPlane struct {
	opts  Options
	dir   *dataDir
	logs  *logFiles
	creds *credentials
	// secrets says how Secrets are encrypted, handler answers the API server's requests, and
	// loopback is how it reaches itself.
	secrets  *encryption
	handler  http.Handler
	loopback *rest.Config
	kinds    knownKinds

	listener net.Listener
	etcd     *embed.Etcd

	// Owned by the goroutine bringUp until it has ended.
	controllers *controllers

	endBringUp context.CancelFunc
	broughtUp  sync.WaitGroup
	endServer  context.CancelFunc
	endWatch   context.CancelFunc
	watching   sync.WaitGroup

	// serverEnded is closed when the API server no longer runs. It is nil if it never did.
	serverEnded chan struct{}
	// serverUp is closed when the API server is ready, ready when the controllers are too, done
	// when either has ended.
	serverUp chan struct{}
	ready    chan struct{}
	done     chan struct{}
	// fail closes done once, after setting err.
	failOnce sync.Once
	err      error

	stopOnce sync.Once
	stopped  chan struct{}
	stopErr  error
}

// Start starts a control plane. It returns when etcd serves and the API server is being brought up;
// Ready waits for the rest. ctx bounds Start only: a control plane lives until Stop. Input that the
// user must change is reported as *InputError.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{
		opts: opts, serverUp: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{}), stopped: make(chan struct{}),
		endBringUp: func() {}, endServer: func() {}, endWatch: func() {},
	}
	if err := cp.start(ctx); err != nil {
		cp.fail(err)
		return nil, errors.Join(err, cp.shutDown())
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	var err error
	if cp.dir, err = openDataDir(cp.opts.DataDir, cp.opts.Space); err != nil {
		return err
	}
	if cp.listener, err = listen(cp.opts.Listen); err != nil {
		return err
	}
	if cp.logs, err = openLogs(cp.dir); err != nil {
		return err
	}
	members, err := openPeers(cp.dir, cp.opts.Peers)
	if err != nil {
		return err
	}
	if cp.creds, err = newCredentials(cp.dir, cp.listener, members, cp.opts.Now); err != nil {
		return err
	}
	if err = cp.checkClock(); err != nil {
		return err
	}
	if err = cp.creds.ensure(); err != nil {
		return err
	}
	if cp.secrets, err = openEncryption(cp.dir); err != nil {
		return err
	}
	cp.opts.Progress("starting etcd")
	if cp.etcd, err = startEtcd(ctx, cp.dir, cp.creds, members, cp.logs.etcdLogger()); err != nil {
		return err
	}
	cp.opts.Progress("starting kube-apiserver")
	serverCtx, endServer := context.WithCancel(context.WithoutCancel(ctx))
	cp.endServer = endServer
	server, handler, loopback, err := newAPIServer(serverCtx, cp.listener, etcdURL(cp.etcd), cp.creds, cp.secrets, &cp.kinds, cp.opts.Podless)
	if err != nil {
		return err
	}
	cp.handler, cp.loopback = handler, loopback
	cp.run(serverCtx, server)
	return nil
}

// checkClock fails if the clock shows a time before the keys were made. They would be replaced
// otherwise, and every user of a kubeconfig would need a new one because of a clock that will be
// corrected.
func (cp *ControlPlane) checkClock() error {
	made, err := cp.creds.store.Made(clusterAuthority)
	if err != nil {
		return fmt.Errorf("read the certificate authority: %w", err)
	}
	now := cp.opts.Now()
	if now.After(made.Add(-clockSlack)) {
		return nil
	}
	return &InputError{
		Flag: "--data-dir", Value: cp.opts.DataDir,
		Reason: fmt.Sprintf("the clock shows %s, but the keys there were made at %s", now.UTC().Format(time.RFC3339), made.UTC().Format(time.RFC3339)),
		Hint:   "set the clock of this machine; if it was wrong when the keys were made, remove " + cp.dir.pki() + " and give everybody the new kubeconfig",
	}
}

// run starts the goroutines of a control plane: the server, its bringing up, and the watch over
// both and over the certificates.
func (cp *ControlPlane) run(serverCtx context.Context, server preparedServer) {
	cp.serverEnded = make(chan struct{})
	go func() {
		defer close(cp.serverEnded)
		if err := server.Run(serverCtx); err != nil {
			cp.fail(fmt.Errorf("kube-apiserver: %w", err))
		} else if serverCtx.Err() == nil {
			cp.fail(errors.New("kube-apiserver ended by itself"))
		}
	}()
	bringUpCtx, endBringUp := context.WithCancel(context.WithoutCancel(serverCtx))
	cp.endBringUp = endBringUp
	cp.broughtUp.Go(func() {
		if err := cp.bringUp(bringUpCtx); err != nil {
			cp.fail(err)
		}
	})
	watchCtx, endWatch := context.WithCancel(context.WithoutCancel(serverCtx))
	cp.endWatch = endWatch
	cp.watching.Go(func() { cp.watch(watchCtx) })
}

// bringUp waits for the API server, gives the administrator his rights, has every Secret encrypted
// and starts the controllers.
func (cp *ControlPlane) bringUp(ctx context.Context) error {
	itself, err := kubernetes.NewForConfig(cp.loopback)
	if err != nil {
		return err
	}
	admin, err := kubernetes.NewForConfig(cp.creds.adminConfig())
	if err != nil {
		return err
	}
	if err := cp.awaitServer(ctx, itself.Discovery().RESTClient()); err != nil {
		return fmt.Errorf("wait for kube-apiserver: %w", err)
	}
	close(cp.serverUp)
	if err := cp.Err(); err != nil {
		return err
	}
	if err := bindAdministrators(ctx, itself); err != nil {
		return err
	}
	if err := cp.await(ctx, func() bool { return mayDoEverything(ctx, admin) }); err != nil {
		return fmt.Errorf("wait until the administrator has his rights: %w", err)
	}
	if err := cp.secrets.catchUp(ctx, itself); err != nil {
		// What is not encrypted stays so, and readable. The next start tries again.
		klog.ErrorS(err, "Not every Secret could be encrypted")
	}
	if err := cp.Err(); err != nil {
		return err
	}
	cp.opts.Progress("starting controllers")
	if cp.controllers, err = startControllers(ctx, cp.creds); err != nil {
		return fmt.Errorf("start controllers: %w", err)
	}
	close(cp.ready)
	return nil
}

// awaitServer returns when /readyz answers 200. Until then the answers do not matter: refused,
// unauthorized because RBAC has no roles yet, or a list of what is missing.
func (cp *ControlPlane) awaitServer(ctx context.Context, client rest.Interface) error {
	return cp.await(ctx, func() bool { return client.Get().AbsPath("/readyz").Do(ctx).Error() == nil })
}

// await returns when something holds, or fails when the API server has ended.
func (cp *ControlPlane) await(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if holds() {
			return nil
		}
		select {
		case <-tick.C:
		case <-cp.serverEnded:
			return errors.New("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch reports a failure of etcd and renews certificates.
func (cp *ControlPlane) watch(ctx context.Context) {
	tick := time.NewTicker(renewalPeriod)
	defer tick.Stop()
	for {
		select {
		case err := <-cp.etcd.Err():
			cp.fail(fmt.Errorf("etcd: %w", err))
		case <-cp.etcd.Server.StopNotify(): // here it is stopped only after this has ended
			cp.fail(fmt.Errorf("etcd: %w", errRemoved))
			<-ctx.Done()
			return
		case <-tick.C:
			// There are months left to succeed in.
			if err := cp.creds.ensure(); err != nil {
				klog.ErrorS(err, "Certificates cannot be renewed", "retry", renewalPeriod)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (cp *ControlPlane) fail(err error) {
	cp.failOnce.Do(func() {
		cp.err = err
		close(cp.done)
	})
}

// Ready waits until the API server is ready and the controllers run. It returns an error if ctx
// ends before, or if the control plane fails.
func (cp *ControlPlane) Ready(ctx context.Context) error {
	select {
	case <-cp.ready:
		return nil
	case <-cp.done:
		return cp.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the control plane: %w", ctx.Err())
	}
}

// Done is closed when the control plane does not work any more: a part of it has failed, or Stop
// has been called. Stop must be called in either case.
func (cp *ControlPlane) Done() <-chan struct{} { return cp.done }

// Err says why Done is closed; nil before that.
func (cp *ControlPlane) Err() error {
	select {
	case <-cp.done:
		return cp.err
	default:
		return nil
	}
}

// RestConfig returns the administrator's client configuration (group nephele:administrators, which
// a ClusterRoleBinding lets do everything), without client-side rate limits. The caller may change
// it.
func (cp *ControlPlane) RestConfig() *rest.Config { return cp.creds.adminConfig() }

// Kubeconfig is the path of the administrator's kubeconfig, readable by the owner only.
func (cp *ControlPlane) Kubeconfig() string { return cp.dir.kubeconfig() }

// URL is the address of the API server.
func (cp *ControlPlane) URL() string { return cp.creds.url() }

// LogDir is the directory of the log files.
func (cp *ControlPlane) LogDir() string { return cp.dir.logs() }

// Stop ends the controllers, drains and ends the API server, closes etcd and frees the data
// directory, in this order. It returns when all of this is done, or with an error when ctx ends
// first; what is left then ends with the process, and no data is lost. Further calls wait for the
// first.
func (cp *ControlPlane) Stop(ctx context.Context) error {
	cp.stopOnce.Do(func() {
		cp.fail(errStopped)
		go func() {
			defer close(cp.stopped)
			cp.stopErr = cp.shutDown()
		}()
	})
	select {
	case <-cp.stopped:
		return cp.stopErr
	case <-ctx.Done():
		return fmt.Errorf("stop the control plane: %w", ctx.Err())
	}
}

// shutDown undoes start, however far that has come.
func (cp *ControlPlane) shutDown() error {
	var errs []error
	if cp.serverEnded != nil {
		cp.stopServer()
	}
	if cp.listener != nil {
		// The server has closed it, unless it never ran.
		if err := cp.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if cp.etcd != nil {
		cp.opts.Progress("stopping etcd")
		cp.etcd.Close()
	}
	if cp.logs != nil {
		errs = append(errs, cp.logs.close())
	}
	if cp.dir != nil {
		errs = append(errs, cp.dir.close())
	}
	return errors.Join(errs...)
}

// stopServer ends what run has started. An API server that is interrupted while it comes up exits
// the process, so it is left to finish that first.
func (cp *ControlPlane) stopServer() {
	limit := time.NewTimer(startUpLimit)
	defer limit.Stop()
	select {
	case <-cp.serverUp:
	case <-cp.serverEnded:
	case <-limit.C:
	}
	cp.endBringUp()
	cp.broughtUp.Wait()
	cp.opts.Progress("stopping controllers")
	if cp.controllers != nil {
		cp.controllers.stop()
	}
	cp.opts.Progress("stopping kube-apiserver")
	cp.endServer()
	<-cp.serverEnded
	cp.endWatch()
	cp.watching.Wait()
}
