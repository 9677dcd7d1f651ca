//go:build linux && !agent

package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// command runs the command with a standard input.
func command(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// unreachableAWS points the SDK to a server that only counts calls.
func unreachableAWS(t *testing.T) *atomic.Int64 {
	t.Helper()
	calls := &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		out.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_PROFILE": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_SESSION_TOKEN": "",
	} {
		t.Setenv(name, value)
	}
	return calls
}

func TestACommandIsBrokenBetweenWords(t *testing.T) {
	const command = `a 'b  c' 'it'\''s one' d`
	for width := range 30 {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\n' "+strings.Join(continued(command, width), "\n    ")).Output()
		require.NoError(t, err)
		assert.Equal(t, "a\nb  c\nit's one\nd\n", string(out), width)
	}
}

// A flag that would do nothing is refused, before anybody is asked.
func TestMisplacedFlags(t *testing.T) {
	calls := unreachableAWS(t)
	for args, want := range map[string]string{
		"ami --keep 2":                      "unknown flag: --keep; eksnode ami --help lists the flags",
		"ami retire ami-1":                  `unknown command "ami-1" for "eksnode ami retire"`,
		"ami list --yes":                    "unknown flag: --yes; eksnode ami list --help lists the flags",
		"ami delete":                        `unknown command "delete" for "eksnode ami"`,
		"ami diff a b c":                    "name two images or two manifests; eksnode ami diff --help shows how",
		"ami publish":                       "name the image; eksnode ami publish --help shows how",
		"ami publish ami-1 --parameter a:b": `--parameter: "a:b" is not a parameter name such as /eksnode/debian/1.34/amd64`,
		"manifests --cluster c --role node": `role: "node" is not a role's ARN such as arn:aws:iam::123456789012:role/node; an instance profile's ARN does not work`,
		"manifests --cluster c --role arn:aws:iam::123456789012:role/node --instance-type x": "--instance-type: it does something with --ami only",
		"userdata check x --cluster c":                             "unknown flag: --cluster; eksnode userdata check --help lists the flags",
		"userdata check":                                           "name the file with user data; eksnode userdata check --help shows how",
		"userdata verify":                                          `unknown command "verify" for "eksnode userdata"`,
		"userdata render --family al2023 --output yaml":            `--output: "yaml" is not known; known: json, text`,
		"userdata render --family al2 --description x --label a=b": "--label: it does something with --cluster only",
	} {
		code, out, errOut := command(t, "", strings.Fields(args)...)
		assert.Equal(t, 2, code, args)
		assert.Empty(t, out, args)
		assert.Equal(t, "eksnode: "+want+"\n", errOut, args)
	}
	assert.Zero(t, calls.Load())
}

// Who has no credentials, or no way to AWS, hears it once.
func TestWithoutAWS(t *testing.T) {
	unreachableAWS(t)
	preflight := []string{"preflight", "--cluster", "my-cluster", "--ami", "ami-0123456789abcdef0"}
	t.Run("no credentials", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		code, out, errOut := command(t, "", preflight...)
		assert.Equal(t, 2, code)
		assert.Empty(t, out)
		assert.Contains(t, errOut, "eksnode: credentials: none were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or log in with `aws sso login`: ")
	})
	t.Run("no way", func(t *testing.T) {
		t.Setenv("AWS_MAX_ATTEMPTS", "1")
		code, out, errOut := command(t, "", append(preflight, "--endpoint", "http://127.0.0.1:1")...)
		assert.Equal(t, 2, code)
		assert.Empty(t, out)
		assert.Contains(t, errOut, "eksnode: reading the caller's identity: ")
		assert.Contains(t, errOut, "connection refused")
	})
	t.Run("no more time", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errOut bytes.Buffer
		assert.Equal(t, 2, run(ctx, preflight, strings.NewReader(""), &out, &errOut))
		assert.Empty(t, out.String())
		assert.Contains(t, errOut.String(), "context canceled")
	})
}
