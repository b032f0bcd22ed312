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
	"strings"
	"time"
)

// Where the agent is asked, on its socket.
const (
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
	// mostAddresses bounds the addresses of an attachment, nameLimit the length of its names.
	mostAddresses, nameLimit = 16, 253
)

// Attachment is an interface of a Pod.
type Attachment struct {
	// Container and Interface identify it, as the runtime names them.
	Container string `json:"container"`
	Interface string `json:"interface"`
	// Namespace, Name and UID are those of the Pod. Not all runtimes tell the UID.
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name,omitempty"`
	UID       string       `json:"uid,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
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

// Normalize returns what is wrong with the attachment, and puts its addresses into the form in
// which they are compared.
func (a *Attachment) Normalize() error {
	if err := a.CheckIdentity(); err != nil {
		return err
	}
	for _, f := range []struct{ what, value string }{{"namespace", a.Namespace}, {"name", a.Name}} {
		if f.value == "" || len(f.value) > nameLimit || strings.ContainsAny(f.value, "/ ") {
			return fmt.Errorf("%s %q: want that of a Pod", f.what, cut(f.value))
		}
	}
	if len(a.UID) > nameLimit {
		return fmt.Errorf("uid %q: want that of a Pod", cut(a.UID))
	}
	if len(a.Addresses) > mostAddresses {
		return fmt.Errorf("%d addresses, want up to %d", len(a.Addresses), mostAddresses)
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

// cut shortens what is repeated to whoever has said it.
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

// ask gives the agent something to do and waits until that is done.
func ask(ctx context.Context, socket, path string, about any, limit time.Duration) error {
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
	case response.StatusCode == http.StatusOK:
		return nil
	}
	return refusedError{strings.TrimSpace(string(text)), response.StatusCode == http.StatusServiceUnavailable}
}
