package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// carried is the identity of the person whose credentials the transport carries (mode Local).
type carried struct{}

func (carried) bearer(context.Context) (string, error) { return "", nil }

// pasted is the identity of a person who has pasted a token.
type pasted string

func (p pasted) bearer(context.Context) (string, error) { return string(p), nil }

// open takes the code of a link and begins a session.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	if s.o.Mode != Local {
		fail(w, refuse(http.StatusNotFound, "links are for the console of one person"))
		return
	}
	if r.Method != http.MethodGet || strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") {
		fail(w, refuse(http.StatusForbidden, "a link works once, so it is opened and not looked at"))
		return
	}
	code := r.URL.Query().Get("code")
	if !s.codes.good(code) {
		http.Error(w, "This link was used before, or it is too old. Run \"nephele console\" for a new one.", http.StatusForbidden)
		return
	}
	u, err := s.whoAmI(r.Context(), carried{})
	if err != nil {
		http.Error(w, "The cluster does not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	if !s.codes.redeem(code) {
		http.Error(w, "This link was used before.", http.StatusForbidden)
		return
	}
	proof, bad := s.enter(w, r, u, carried{}, time.Time{})
	if bad != nil {
		fail(w, bad)
		return
	}
	lead(w, place(r.URL.Query().Get("to")), proof)
}

// login takes a token that somebody has pasted (mode Cluster).
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if s.o.Mode != Cluster || !s.o.Tokens {
		fail(w, refuse(http.StatusNotFound, "this console takes no tokens"))
		return
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		fail(w, refuse(http.StatusUnsupportedMediaType, "want application/json"))
		return
	}
	select {
	case s.logins <- struct{}{}:
		defer func() { <-s.logins }()
	default:
		fail(w, refuse(http.StatusTooManyRequests, "too many people log in just now; try again"))
		return
	}
	var in struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&in); err != nil {
		fail(w, unread(err))
		return
	}
	in.Token = strings.TrimSpace(in.Token)
	if in.Token == "" || strings.ContainsFunc(in.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		fail(w, refuse(http.StatusBadRequest, "that is no token"))
		return
	}
	u, err := s.whoAmI(r.Context(), pasted(in.Token))
	if err != nil {
		fail(w, notWho(err))
		return
	}
	proof, bad := s.enter(w, r, u, pasted(in.Token), time.Time{})
	if bad != nil {
		fail(w, bad)
		return
	}
	answer(w, http.StatusOK, map[string]string{"csrf": proof})
}

// errUnknown is what the cluster says of credentials that are none.
var errUnknown = errors.New("the cluster does not accept these credentials")

func notWho(err error) *refusal {
	if errors.Is(err, errUnknown) {
		return refuse(http.StatusUnauthorized, "%v", err)
	}
	return refuse(http.StatusBadGateway, "%v", err)
}

// whoAmI asks the cluster whose credentials these are. Nobody in particular is nobody.
func (s *Server) whoAmI(ctx context.Context, who identity) (found person, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	question, err := json.Marshal(authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	})
	if err != nil {
		return found, err
	}
	res, err := s.cluster.do(ctx, who, call{
		method: http.MethodPost, path: "apis/authentication.k8s.io/v1/selfsubjectreviews", kind: "application/json", body: bytes.NewReader(question),
	})
	if err != nil {
		return found, err
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return found, errUnknown
	case res.StatusCode/100 != 2:
		return found, fmt.Errorf("asking the cluster for the identity of the caller: %s", res.Status)
	}
	var told authenticationv1.SelfSubjectReview
	if err := json.NewDecoder(http.MaxBytesReader(nil, res.Body, 1<<20)).Decode(&told); err != nil {
		return found, fmt.Errorf("asking the cluster for the identity of the caller: %w", err)
	}
	if told.Status.UserInfo.Username == "" || told.Status.UserInfo.Username == "system:anonymous" {
		return found, errUnknown
	}
	return person{told.Status.UserInfo.Username, told.Status.UserInfo.Groups}, nil
}

// unread is why a body could not be read.
func unread(err error) *refusal {
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return refuse(http.StatusRequestEntityTooLarge, "at most %d bytes are read of a request", tooLong.Limit)
	}
	return refuse(http.StatusBadRequest, "reading the request: %v", err)
}
