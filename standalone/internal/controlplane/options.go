package controlplane

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// DefaultListen is the address of the API server unless told otherwise.
const DefaultListen = "127.0.0.1:6443"

// Options say where a control plane lives.
type Options struct {
	// DataDir holds everything that outlives the process. It is created if missing.
	DataDir string
	// Listen is the API server's address as HOST:PORT; port 0 takes a free one. Empty means
	// DefaultListen.
	Listen string
	// Progress, if not nil, is called when a step of starting or stopping begins, with a few words
	// for a person. The calls come from several goroutines, one at a time.
	Progress func(step string)
	// Now is the clock by which certificates are issued and renewed. Nil means time.Now.
	Now func() time.Time
	// Podless leaves out the API groups that mean nothing where no Pod runs: apps, autoscaling,
	// batch, certificates, node, policy, resource, scheduling and storage. Pods themselves are
	// served. Describing these groups takes a tenth of the memory that a control plane needs.
	Podless bool
	// Peers, if not nil, makes the database one of several.
	Peers *Peers
	// Space is how many bytes must be free below DataDir at the start. Zero means 256 MiB.
	Space uint64
}

// InputError reports something that the user of the program must change. Its text says what.
type InputError struct {
	// Flag is the command line flag concerned, with dashes.
	Flag string
	// Value is what the flag said.
	Value string
	// Reason says what is wrong, Hint what to do about it.
	Reason string
	Hint   string
	// Err is the cause, if there is one beyond the reason.
	Err error
}

// Error implements error.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s %s: %s; %s", e.Flag, e.Value, e.Reason, e.Hint)
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

func (o Options) withDefaults() (Options, error) {
	if o.DataDir == "" {
		return o, &InputError{Flag: "--data-dir", Value: `""`, Reason: "no directory given", Hint: "name a directory to keep the data in"}
	}
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if err := checkListen(o.Listen); err != nil {
		return o, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Space == 0 {
		o.Space = minSpace
	}
	return o, nil
}

// badListen reports what is wrong with --listen.
func badListen(addr, reason, hint string, err error) error {
	return &InputError{Flag: "--listen", Value: addr, Reason: reason, Hint: hint, Err: err}
}

// checkListen finds what can be seen to be wrong in addr without touching anything.
func checkListen(addr string) error {
	const form = "write HOST:PORT, for example " + DefaultListen
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return badListen(addr, "not an address", form, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return badListen(addr, fmt.Sprintf("port %q is not a number from 0 to 65535", port), form, err)
	}
	return nil
}

// listen opens the API server's port, so that a port in use is found before anything is started.
func listen(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, badListen(addr, "port "+port+" is in use by another program", "choose another port, or stop that program (port 0 takes a free one)", err)
	case errors.Is(err, syscall.EACCES):
		return nil, badListen(addr, "no permission to listen on port "+port, "choose a port above 1023", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, badListen(addr, "this machine has no address "+host, "use 127.0.0.1, or an address of one of its interfaces", err)
	default:
		return nil, badListen(addr, "cannot listen: "+err.Error(), "use 127.0.0.1, or an address of one of its interfaces", err)
	}
}

// reachable returns the address under which this machine itself reaches a listener: its own, or the
// loopback address if it listens on all interfaces.
func reachable(l net.Listener) netip.AddrPort {
	ap := l.Addr().(*net.TCPAddr).AddrPort()
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	if ap.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ap.Port())
	}
	return ap
}
