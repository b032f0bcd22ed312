package cni

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
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
	// answerLimit bounds what is read of an answer, headerLimit the header before it.
	answerLimit, headerLimit = 4 << 10, 4 << 10
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
	status, text, err := post(ctx, socket, path, body)
	switch {
	case err != nil:
		return awayError{err}
	case status == statusOK && answer != nil:
		if err := json.Unmarshal(text, answer); err != nil {
			return refusedError{"it answers what this plugin does not understand: " + err.Error(), false}
		}
		return nil
	case status == statusOK:
		return nil
	}
	return refusedError{strings.TrimSpace(string(text)), status == statusUnavailable}
}

// Statuses of RFC 9110 that the plugin tells apart.
const (
	statusOK          = 200
	statusUnavailable = 503
)

// post makes one request of HTTP/1.0 on a socket, and returns the status and body of the answer.
// A runtime starts the plugin for each Pod and waits for it: package net/http brings TLS with it,
// and a third of the time that a Pod waited for its network went into starting that.
func post(ctx context.Context, socket, path string, body []byte) (status int, answer []byte, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, nil, err
	}
	return bounded(ctx, conn, path, body)
}

// bounded asks on a connection, which it closes, until ctx ends.
func bounded(ctx context.Context, conn net.Conn, path string, body []byte) (status int, answer []byte, err error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	status, answer, err = exchange(conn, path, body)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the connection was given up for it
	}
	return status, answer, err
}

// exchange sends a request on a connection of its own, and reads the answer.
func exchange(conn net.Conn, path string, body []byte) (status int, answer []byte, err error) {
	request := fmt.Appendf(nil, "POST %s HTTP/1.0\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, len(body))
	if _, err := conn.Write(append(request, body...)); err != nil {
		return 0, nil, err
	}
	in := bufio.NewReader(io.LimitReader(conn, headerLimit+answerLimit))
	head := textproto.NewReader(in)
	line, err := head.ReadLine()
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer: %w", err)
	}
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	if status, err = strconv.Atoi(code); err != nil || len(code) != 3 || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, nil, fmt.Errorf("answer %q: want a status line of HTTP/1", cut(line))
	}
	fields, err := head.ReadMIMEHeader()
	if err != nil {
		return 0, nil, fmt.Errorf("read the header of the answer: %w", err)
	}
	size, known := answerLimit, false
	if said := fields.Get("Content-Length"); said != "" {
		n, err := strconv.Atoi(said)
		if err != nil || n < 0 {
			return 0, nil, fmt.Errorf("Content-Length %q of the answer: want a number of bytes", cut(said))
		}
		size, known = min(n, answerLimit), true
	}
	answer, err = io.ReadAll(io.LimitReader(in, int64(size)))
	if err == nil && known && len(answer) < size {
		err = fmt.Errorf("%d of %d bytes of the answer: %w", len(answer), size, io.ErrUnexpectedEOF)
	}
	return status, answer, err
}

// Refusal is an error about what was asked, which is the same when it is asked again.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return r.Err.Error() }

// Unwrap returns what is wrong with what was asked.
func (r Refusal) Unwrap() error { return r.Err }
