package ec2

import (
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/nativeapi"
	"github.com/nephele-io/nephele/internal/sim/ec2/sigv4"
)

// authenticate finds the caller, the service and the region of a request, and writes them into req.
// Errors have the code that the service of the credential scope gives; without a scope, that of the
// service that the API version of the request belongs to.
func (h *Handler) authenticate(r *http.Request, req *request, body []byte) error {
	signed, err := sigv4.Parse(r)
	if err == nil {
		req.call.Region = signed.Region
		// Services of the query protocol are distinguished by the signature, the others by their
		// own protocols.
		if speaks(signed.Service) != speaks(req.call.Service) || h.actions[signed.Service] == nil {
			return signatureRefused(req.call.Service, "Credential should be scoped to correct service: '"+req.call.Service+"'.")
		}
		req.call.Service = signed.Service
	}
	switch {
	case h.cfg.NoAuth:
		err = h.assumeIdentity(req, signed)
	case err != nil:
		err = notSigned(req.call.Service, err)
	default:
		err = h.verify(r, req, signed, body)
	}
	if err != nil {
		return err
	}
	req.call.Account = req.caller.Account
	if req.call.Service == serviceSTS {
		return h.checkSTSRegion(req)
	}
	req.region, err = h.cfg.World.Region(req.caller.Account, req.call.Region)
	return err
}

func serviceByVersion(version string) string {
	if version == "2011-06-15" {
		return serviceSTS
	}
	if service := nativeapi.ServiceOfVersion(version); service != "" {
		return service
	}
	return serviceEC2
}

func (h *Handler) verify(r *http.Request, req *request, signed sigv4.Authorization, body []byte) error {
	cred, ok := h.cfg.World.Credential(signed.AccessKeyID)
	if !ok {
		return unknownKey(req.call.Service)
	}
	if err := signed.Verify(r, body, cred.Secret, h.cfg.WallClock()); err != nil {
		return badSignature(req.call.Service, err)
	}
	token := r.Header.Get("X-Amz-Security-Token")
	if subtle.ConstantTimeCompare([]byte(token), []byte(cred.SessionToken)) != 1 {
		return unknownKey(req.call.Service)
	}
	if !cred.Expires.IsZero() && !h.cfg.Clock().Before(cred.Expires) {
		if req.call.Service != serviceEC2 {
			return codec.Fail("ExpiredToken", "The security token included in the request is expired")
		}
		return codec.Fail("RequestExpired", "Request has expired.")
	}
	req.caller = cred
	return nil
}

// assumeIdentity is the door without a lock: it takes a known key at its word and everybody else
// for the first account. A request without a scope goes to the first region of that account.
func (h *Handler) assumeIdentity(req *request, signed sigv4.Authorization) error {
	cred, ok := h.cfg.World.Credential(signed.AccessKeyID)
	if !ok {
		accounts := h.cfg.World.Accounts()
		if len(accounts) == 0 {
			return unknownKey(req.call.Service)
		}
		cred = aws.Credential{AccessKeyID: signed.AccessKeyID, Account: accounts[0].ID}
	}
	req.caller = cred
	if regions := h.cfg.World.Regions(cred.Account); req.call.Region == "" && len(regions) > 0 {
		req.call.Region = regions[0].Name
	}
	return nil
}

// checkSTSRegion accepts the region that every account has, and those enabled for the caller's
// account.
func (h *Handler) checkSTSRegion(req *request) error {
	if req.call.Region == "us-east-1" || hasRegion(h.cfg.World.Regions(req.caller.Account), req.call.Region) {
		return nil
	}
	for _, a := range h.cfg.World.Accounts() {
		if hasRegion(h.cfg.World.Regions(a.ID), req.call.Region) {
			return codec.Fail("RegionDisabledException", "STS is not activated in this region for account:%s.", req.caller.Account)
		}
	}
	return codec.Fail("SignatureDoesNotMatch", "Credential should be scoped to a valid region.")
}

func hasRegion(regions []aws.RegionInfo, name string) bool {
	for _, r := range regions {
		if r.Name == name {
			return true
		}
	}
	return false
}

func unknownKey(service string) error {
	if service != serviceEC2 {
		return codec.Fail("InvalidClientTokenId", "The security token included in the request is invalid.")
	}
	return codec.Fail("AuthFailure", "AWS was not able to validate the provided access credentials")
}

func notSigned(service string, err error) error {
	switch {
	case service == serviceEC2:
		return codec.Fail("AuthFailure", "AWS was not able to validate the provided access credentials")
	case errors.Is(err, sigv4.ErrMissing):
		return codec.Fail("MissingAuthenticationToken", "Request is missing Authentication Token")
	}
	return &codec.APIError{Code: "IncompleteSignature", Message: err.Error()}
}

func badSignature(service string, err error) error {
	switch {
	case errors.Is(err, sigv4.ErrExpired) && service == serviceEC2:
		return codec.Fail("RequestExpired", "Request has expired. %v", err)
	case errors.Is(err, sigv4.ErrExpired):
		return signatureRefused(service, "Signature expired: "+err.Error())
	case errors.Is(err, sigv4.ErrMalformed) && service != serviceEC2:
		return &codec.APIError{Code: "IncompleteSignature", Message: err.Error()}
	}
	return signatureRefused(service, "The request signature we calculated does not match the signature you provided. "+
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
}

// signatureRefused is AuthFailure in EC2, whatever the reason, and SignatureDoesNotMatch elsewhere.
func signatureRefused(service, message string) error {
	if service != serviceEC2 {
		return codec.Fail("SignatureDoesNotMatch", "%s", message)
	}
	return codec.Fail("AuthFailure", "AWS was not able to validate the provided access credentials")
}
