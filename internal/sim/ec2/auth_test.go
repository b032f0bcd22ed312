package ec2_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/nephele-io/nephele/internal/sim"
)

// refused is what both services answer to the same caller.
type refused struct {
	ec2Code string
	ec2HTTP int
	stsCode string
	stsHTTP int
}

func (f *fixture) both(t *testing.T, cfg aws.Config) refused {
	t.Helper()
	var r refused
	_, err := awsec2.NewFromConfig(cfg).DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{})
	r.ec2Code, r.ec2HTTP = code(t, err), status(err)
	_, err = sts.NewFromConfig(cfg).GetCallerIdentity(f.ctx, &sts.GetCallerIdentityInput{})
	r.stsCode, r.stsHTTP = code(t, err), status(err)
	return r
}

func TestCallers(t *testing.T) {
	f := start(t, sim.Options{})
	inRegion := func(name string) aws.Config {
		cfg := f.config(keyID, secret, "")
		cfg.Region = name
		return cfg
	}
	for _, c := range []struct {
		name string
		cfg  aws.Config
		want refused
	}{
		{"good", f.config(keyID, secret, ""), refused{}},
		{"unknown key", f.config("AKIAUNKNOWN", secret, ""), refused{"AuthFailure", 401, "InvalidClientTokenId", 403}},
		{"wrong secret", f.config(keyID, "wrong", ""), refused{"AuthFailure", 401, "SignatureDoesNotMatch", 403}},
		{"token that the key has not", f.config(keyID, secret, "token"), refused{"AuthFailure", 401, "InvalidClientTokenId", 403}},
		{"region of another account only", inRegion("ap-east-1"), refused{"OptInRequired", 401, "RegionDisabledException", 403}},
		{"region that does not exist", inRegion("eu-nowhere-9"), refused{"OptInRequired", 401, "SignatureDoesNotMatch", 403}},
	} {
		if got := f.both(t, c.cfg); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	if err := f.World().RemoveCredential(keyID); err != nil {
		t.Fatal(err)
	}
	if got := f.both(t, f.config(keyID, secret, "")); got.ec2Code != "AuthFailure" {
		t.Errorf("a removed key: %+v", got)
	}
}

func TestSessions(t *testing.T) {
	f := start(t, sim.Options{})
	assume := func(arn, external string, seconds int32) (*sts.AssumeRoleOutput, error) {
		in := &sts.AssumeRoleInput{RoleArn: &arn, RoleSessionName: aws.String("session")}
		if external != "" {
			in.ExternalId = &external
		}
		if seconds != 0 {
			in.DurationSeconds = &seconds
		}
		return f.sts().AssumeRole(f.ctx, in)
	}
	arn := "arn:aws:iam::" + other + ":role/guest"
	for _, c := range []struct {
		name, arn, external string
		seconds             int32
		want                string
	}{
		{"wrong external id", arn, "abracadabra", 0, "AccessDenied"},
		{"no external id", arn, "", 0, "AccessDenied"},
		{"unknown role", arn + "x", "shibboleth", 0, "AccessDenied"},
		{"too short", arn, "shibboleth", 899, "ValidationError"},
		{"longer than the role allows", arn, "shibboleth", 3601, "ValidationError"},
		{"no ARN", "guest", "shibboleth", 0, "ValidationError"},
		{"good", arn, "shibboleth", 3600, ""},
	} {
		if _, err := assume(c.arn, c.external, c.seconds); code(t, err) != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	out, err := assume(arn, "shibboleth", 0)
	must(t, out, err)
	key, secret, token := *out.Credentials.AccessKeyId, *out.Credentials.SecretAccessKey, *out.Credentials.SessionToken
	if got := f.both(t, f.config(key, secret, token)); got != (refused{}) {
		t.Errorf("a good session: %+v", got)
	}
	for name, wrong := range map[string]string{"no token": "", "other token": "x" + token} {
		if got := f.both(t, f.config(key, secret, wrong)); got.ec2Code != "AuthFailure" || got.stsCode != "InvalidClientTokenId" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	f.Advance(time.Hour)
	if got := f.both(t, f.config(key, secret, token)); got != (refused{"RequestExpired", 400, "ExpiredToken", 403}) {
		t.Errorf("an expired session: %+v", got)
	}
	if got := f.both(t, f.config(keyID, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "")); got != (refused{}) {
		t.Errorf("moving the simulated time stops other callers: %+v", got)
	}
}

// post sends a form without a signature and returns status and body.
func (f *fixture) post(t *testing.T, form string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(f.ctx, http.MethodPost, f.URL()+"/", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestUnsigned(t *testing.T) {
	f := start(t, sim.Options{})
	for form, want := range map[string]string{
		"Action=DescribeVpcs&Version=2016-11-15":      "AuthFailure",
		"Action=GetCallerIdentity&Version=2011-06-15": "MissingAuthenticationToken",
	} {
		if _, body := f.post(t, form, nil); !strings.Contains(body, "<Code>"+want+"</Code>") {
			t.Errorf("%s: %s", form, body)
		}
	}
	broken := http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=x"}}
	if _, body := f.post(t, "Action=GetCallerIdentity&Version=2011-06-15", broken); !strings.Contains(body, "<Code>IncompleteSignature</Code>") {
		t.Errorf("half a signature: %s", body)
	}
}

// TestNoAuth is the door without a lock, with its raw answers.
func TestNoAuth(t *testing.T) {
	f := start(t, sim.Options{NoAuth: true})
	httpStatus, body := f.post(t, "Action=DescribeVpcs&Version=2016-11-15", nil)
	var answer struct {
		XMLName   xml.Name
		RequestID string   `xml:"requestId"`
		IDs       []string `xml:"vpcSet>item>vpcId"`
	}
	if err := xml.Unmarshal([]byte(body), &answer); err != nil || httpStatus != http.StatusOK {
		t.Fatalf("%d %s: %v", httpStatus, body, err)
	}
	if answer.XMLName.Local != "DescribeVpcsResponse" || answer.XMLName.Space != "http://ec2.amazonaws.com/doc/2016-11-15/" ||
		answer.RequestID == "" || len(answer.IDs) != 1 || answer.IDs[0] != defaultID {
		t.Errorf("answer %+v", answer)
	}
	_, body = f.post(t, "Action=GetCallerIdentity&Version=2011-06-15", nil)
	if !strings.Contains(body, "<GetCallerIdentityResult><Arn>") || !strings.Contains(body, "<ResponseMetadata><RequestId>") {
		t.Errorf("STS: %s", body)
	}
	// A known key still decides the account, whatever the signature.
	if got := f.both(t, f.config(otherKey, "nonsense", "")); got != (refused{}) {
		t.Errorf("other account: %+v", got)
	}
	calls := f.Journal().Calls(0)
	if last := calls[len(calls)-1]; last.Account != other || last.Region != region || last.Service != "sts" {
		t.Errorf("journal: %+v", last)
	}
	// GET with the parameters in the query is the same call.
	answerGet, err := http.Get(f.URL() + "/?" + url.Values{"Action": {"DescribeRegions"}, "Version": {"2016-11-15"}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer answerGet.Body.Close()
	if answerGet.StatusCode != http.StatusOK || answerGet.Header.Get("Content-Type") != "text/xml;charset=UTF-8" ||
		answerGet.Header.Get("X-Amzn-Requestid") == "" {
		t.Errorf("GET: %s %v", answerGet.Status, answerGet.Header)
	}
	httpStatus, body = f.post(t, "Action=Nonsense&Version=2016-11-15", nil)
	want := `<Response><Errors><Error><Code>InvalidAction</Code><Message>The action Nonsense is not valid for this web service.</Message></Error></Errors><RequestID>`
	if httpStatus != http.StatusBadRequest || !strings.Contains(body, want) {
		t.Errorf("unknown action: %d %s", httpStatus, body)
	}
}

func TestClockSkew(t *testing.T) {
	f := start(t, sim.Options{})
	form := "Action=DescribeVpcs&Version=2016-11-15"
	date := time.Now().UTC().Add(-20 * time.Minute).Format("20060102T150405Z")
	header := http.Header{
		"X-Amz-Date":    {date},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=" + keyID + "/" + date[:8] + "/eu-west-1/ec2/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"},
	}
	if httpStatus, body := f.post(t, form, header); httpStatus != http.StatusBadRequest || !strings.Contains(body, "<Code>RequestExpired</Code>") {
		t.Errorf("EC2: %d %s", httpStatus, body)
	}
	header.Set("Authorization", strings.Replace(header.Get("Authorization"), "/ec2/", "/sts/", 1))
	if httpStatus, body := f.post(t, form, header); httpStatus != http.StatusForbidden || !strings.Contains(body, "Signature expired") {
		t.Errorf("STS: %d %s", httpStatus, body)
	}
	header.Set("Authorization", strings.Replace(header.Get("Authorization"), "/sts/", "/s3/", 1))
	if _, body := f.post(t, form, header); !strings.Contains(body, "<Code>AuthFailure</Code>") {
		t.Errorf("another service: %s", body)
	}
}
