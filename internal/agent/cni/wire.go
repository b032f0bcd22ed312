package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Where the agent is asked, on its socket.
const (
	PathAssign = "/cni/assign"
	PathAdd    = "/cni/add"
	PathCheck  = "/cni/check"
	PathDelete = "/cni/delete"
	PathKeep   = "/cni/keep"
	PathReady  = "/cni/ready"
)

const (
	// AddLimit is for how long the agent lets a Pod wait; a runtime then tries again.
	AddLimit = 20 * time.Second
	// askLimit bounds an answer for which there is nothing to wait for.
	askLimit = 5 * time.Second
	// answerLimit bounds what is read of an answer.
	answerLimit = 4 << 10
	// maxAddresses bounds the addresses of an attachment, nameLimit the length of its names.
	maxAddresses, nameLimit = 16, 253
)

// Attachment is an interface of a Pod.
type Attachment struct {
	// Container and Interface identify it, as the runtime names them.
	Container string `json:"container"`
	Interface string `json:"interface"`
	// Namespace, Name and UID identify the Pod. Not all runtimes tell the UID.
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name,omitempty"`
	UID       string       `json:"uid,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// Protocol is the number of what the plugin and the agent say to one another about addresses. It
// changes when one that does not know the change would do the wrong thing.
const Protocol = 1

// Wanted is an interface of a Pod that has no addresses yet.
type Wanted struct {
	Attachment
	// Protocol is that of the plugin.
	Protocol int `json:"protocol"`
}

// Check returns what is wrong with it.
func (w *Wanted) Check() error {
	if w.Protocol != Protocol {
		return fmt.Errorf("the plugin speaks version %d of the protocol, and the agent version %d: one of the two was not replaced when the other was; the agent replaces the plugin within seconds", w.Protocol, Protocol)
	}
	if len(w.Addresses) > 0 {
		return errors.New("the agent assigns addresses; a request must not name any")
	}
	if err := w.CheckIdentity(); err != nil {
		return err
	}
	return w.checkPod()
}

// Assigned is what an interface of a Pod is to have.
type Assigned struct {
	// Addresses holds the addresses of the interface, Gateways where it sends everything, one of
	// each family.
	Addresses []netip.Addr `json:"addresses"`
	Gateways  []netip.Addr `json:"gateways"`
	MTU       int          `json:"mtu"`
}

// check returns what is wrong with what an agent has answered.
func (a *Assigned) check() error {
	switch {
	case len(a.Addresses) == 0 || len(a.Addresses) > maxAddresses || len(a.Gateways) == 0 || len(a.Gateways) > maxAddresses:
		return fmt.Errorf("%d addresses and %d gateways: want 1 to %d", len(a.Addresses), len(a.Gateways), maxAddresses)
	case a.MTU < 576 || a.MTU > 65535:
		return fmt.Errorf("MTU %d: want 576 to 65535", a.MTU)
	}
	for _, x := range append(slices.Clone(a.Addresses), a.Gateways...) {
		if !x.IsValid() || x.IsUnspecified() || x.IsLoopback() || x.IsMulticast() || x.Zone() != "" {
			return fmt.Errorf("address %s: want one that an interface can have", x)
		}
	}
	for _, x := range a.Addresses {
		if !gatewayOf(a, x.Is6()).IsValid() {
			return fmt.Errorf("there is no gateway for address %s", x)
		}
	}
	return nil
}

// Kept are the attachments that there are still.
type Kept struct {
	Attachments []Attachment `json:"attachments"`
}

// CheckIdentity returns what is wrong with how the attachment is identified.
func (a *Attachment) CheckIdentity() error {
	switch {
	case a.Container == "" || len(a.Container) > nameLimit:
		return fmt.Errorf("container %q: want the id of a container of up to %d letters", cut(a.Container), nameLimit)
	case a.Interface == "" || len(a.Interface) > nameLimit:
		return fmt.Errorf("interface %q: want the name of an interface", cut(a.Interface))
	}
	return nil
}

// checkPod returns what is wrong with whose it is.
func (a *Attachment) checkPod() error {
	for _, f := range []struct{ what, value string }{{"namespace", a.Namespace}, {"name", a.Name}} {
		if f.value == "" || len(f.value) > nameLimit || strings.ContainsAny(f.value, "/ ") {
			return fmt.Errorf("%s %q: want that of a Pod", f.what, cut(f.value))
		}
	}
	if len(a.UID) > nameLimit {
		return fmt.Errorf("uid %q: want that of a Pod", cut(a.UID))
	}
	return nil
}

// Normalize returns what is wrong with the attachment, and puts its addresses into the form in
// which they are compared.
func (a *Attachment) Normalize() error {
	if err := a.CheckIdentity(); err != nil {
		return err
	}
	if err := a.checkPod(); err != nil {
		return err
	}
	if len(a.Addresses) > maxAddresses {
		return fmt.Errorf("%d addresses, want up to %d", len(a.Addresses), maxAddresses)
	}
	var kept []netip.Addr
	for _, x := range a.Addresses {
		x = x.Unmap().WithZone("")
		switch {
		case !x.IsValid() || x.IsUnspecified() || x.IsLoopback() || x.IsMulticast():
			return fmt.Errorf("address %q: want one that a Pod can have", x)
		case x.IsLinkLocalUnicast(): // every link has the same
			continue
		}
		kept = append(kept, x)
	}
	if a.Addresses = kept; len(kept) == 0 {
		return errors.New("no address that the Pod is known by, so no policy can be enforced on it")
	}
	return nil
}

// cut shortens text of a caller that is repeated in the answer.
func cut(text string) string {
	if len(text) > 64 {
		return text[:64] + "..."
	}
	return text
}

// awayError is the error while no agent answers.
type awayError struct{ err error }

func (e awayError) Error() string {
	return "the agent of this Node does not answer: " + e.err.Error()
}

func (e awayError) Unwrap() error { return e.err }

// refusedError is what the agent answers in place of an agreement. Later tells that it may agree
// later.
type refusedError struct {
	text  string
	later bool
}

func (e refusedError) Error() string { return "the agent of this Node: " + e.text }

// ask gives the agent something to do and waits until that is done. What it answers goes into
// answer, unless that is nil.
func ask(ctx context.Context, socket, path string, about, answer any, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := json.Marshal(about)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return awayError{err}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	switch {
	case err != nil:
		return awayError{err}
	case response.StatusCode == http.StatusOK && answer != nil:
		if err := json.Unmarshal(text, answer); err != nil {
			return refusedError{"it answers what this plugin does not understand: " + err.Error(), false}
		}
		return nil
	case response.StatusCode == http.StatusOK:
		return nil
	}
	return refusedError{strings.TrimSpace(string(text)), response.StatusCode == http.StatusServiceUnavailable}
}

// Refusal is an error about what was asked, which is the same when it is asked again.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return r.Err.Error() }

// Unwrap returns what is wrong with what was asked.
func (r Refusal) Unwrap() error { return r.Err }
