package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
)

// ErrToken means that a paging token was not issued for this request.
var ErrToken = errors.New("the paging token was not issued for this request")

// Page is one page of a sorted list.
type Page[T any] struct {
	Items []T
	// Next is the token for the following page, "" on the last one.
	Next string
}

// Paging cuts lists into pages.
type Paging struct {
	// Request identifies what is listed (see Fingerprint); a token is only good for the same
	// request.
	Request string
	// Token is what the caller sent, "" for the first page.
	Token string
	// Size is the number of items on a page, 0 for all of them.
	Size int
}

// pageKeys are the parameters of all services that choose a page. It is never written to.
var pageKeys = []string{"NextToken", "MaxResults", "Marker", "MaxRecords", "PageSize", "MaxItems", "Action", "Version"}

// Fingerprint digests the caller and the parameters: a token is good only for the same ones, except
// for the page size.
func Fingerprint(p Params, scope ...string) string {
	values := p.Map()
	h := sha256.New()
	h.Write([]byte(strings.Join(scope, "\x00")))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(pageKeys, key) {
			h.Write([]byte("\x00" + key + "\x00" + values[key]))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Cut returns the page that p asks for. The list is ordered by key here, and the token holds the
// key of the last item given out, so that objects which come and go between two pages neither
// repeat nor hide others. The error is ErrToken.
func Cut[T any](list []T, key func(T) string, p Paging) (Page[T], error) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	if p.Token != "" {
		after, err := decodeToken(p)
		if err != nil {
			return Page[T]{}, err
		}
		from, found := slices.BinarySearchFunc(sorted, after, func(o T, k string) int { return strings.Compare(key(o), k) })
		if found {
			from++
		}
		sorted = sorted[from:]
	}
	if p.Size <= 0 || len(sorted) <= p.Size {
		return Page[T]{Items: sorted}, nil
	}
	sorted = sorted[:p.Size]
	return Page[T]{Items: sorted, Next: encodeToken(p.Request, key(sorted[p.Size-1]))}, nil
}

func encodeToken(request, last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(request + "\x00" + last))
}

func decodeToken(p Paging) (last string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil {
		return "", ErrToken
	}
	request, last, ok := strings.Cut(string(raw), "\x00")
	if !ok || request != p.Request {
		return "", ErrToken
	}
	return last, nil
}
