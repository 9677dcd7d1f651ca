//go:build linux && !agent

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	sh "mvdan.cc/sh/v3/shell"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// command runs eksnode with in as standard input.
func command(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(quick(t.Context()), args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// exits runs eksnode, which must end with an exit code.
func exits(t *testing.T, want int, args ...string) (out, errOut string) {
	t.Helper()
	code, out, errOut := command(t, "", args...)
	require.Equal(t, want, code, "%q: %s%s", args, out, errOut)
	return out, errOut
}

// succeeds runs eksnode, and returns what it prints.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := exits(t, 0, args...)
	return out
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
	endpoint.Environment(t, map[string]string{"AWS_ENDPOINT_URL": server.URL})
	return calls
}

func TestCommandsAreWrappedBetweenWords(t *testing.T) {
	const command = `a 'b  c' 'it'\''s one' d`
	for width := range 30 {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\n' "+strings.Join(continued(command, width), "\n    ")).Output()
		require.NoError(t, err)
		assert.Equal(t, "a\nb  c\nit's one\nd\n", string(out), width)
	}
}

// The command lines in testdata/refusals.cases are refused before any call to AWS. … is any text.
func TestRefusals(t *testing.T) {
	calls := unreachableAWS(t)
	for paragraph := range strings.SplitSeq(strings.TrimSpace(testkit.Content(t, "testdata/refusals.cases")), "\n\n") {
		systems, refused, isCase := strings.Cut(paragraph, "$ eksnode ")
		if !isCase {
			continue // a comment
		}
		line, want, _ := strings.Cut(refused, "\n")
		args, err := sh.Fields(line, nil)
		require.NoError(t, err, line)
		for goos := range strings.FieldsSeq(cmp.Or(systems, "linux")) {
			var out, errOut bytes.Buffer
			assert.Equal(t, usageCode, runOn(t.Context(), goos, args, strings.NewReader(""), &out, &errOut), line)
			assert.Empty(t, out.String(), line)
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
			assert.Regexp(t, `^`+pattern+`\n$`, errOut.String(), line)
		}
	}
	assert.Zero(t, calls.Load())
}

// Missing credentials, or no connection to AWS, is one error instead of one per
// check.
func TestMissingCredentialsOrConnectionIsOneError(t *testing.T) {
	unreachableAWS(t)
	preflight := []string{"preflight", "--cluster", "my-cluster", "--ami", "ami-0123456789abcdef0"}
	t.Run("no credentials", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		out, errOut := exits(t, 2, preflight...)
		assert.Empty(t, out)
		assert.Contains(t, errOut, "eksnode: credentials: none were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or log in with `aws sso login`: ")
	})
	t.Run("no connection", func(t *testing.T) {
		t.Setenv("AWS_MAX_ATTEMPTS", "1")
		out, errOut := exits(t, 2, append(preflight, "--endpoint", "http://127.0.0.1:1")...)
		assert.Empty(t, out)
		assert.Contains(t, errOut, "eksnode: reading the caller's identity: ")
		assert.Contains(t, errOut, "connection refused")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errOut bytes.Buffer
		assert.Equal(t, 2, run(ctx, preflight, strings.NewReader(""), &out, &errOut))
		assert.Empty(t, out.String())
		assert.Contains(t, errOut.String(), "eksnode: interrupted\n")
	})
}

// blackHole is an address that never completes a connection: the queue of a
// listener without an accept is full, so the kernel drops further attempts.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	for {
		c, err := net.DialTimeout("tcp", address.String(), 100*time.Millisecond)
		if err != nil {
			return address.String()
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// silent accepts connections, and closes none before the test ends.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	return listener.Addr().String()
}

// closed is an address on which nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// A connection that cannot be made ends every command after a few seconds, with one
// line that names the host and the reason. The commands run as processes, because
// Go reads the proxy of the environment only once.
func TestConnectionsThatCannotBeMadeEndSoon(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	t.Cleanup(secure.Close)
	refuses := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(refuses.Close)
	for name, c := range map[string]struct {
		endpoint string
		env      []string
		want     string
	}{
		"nothing listens":        {"http://" + closed(t), nil, "connect: connection refused"},
		"a black hole":           {"http://" + blackHole(t), nil, "no response within 2s"},
		"a black hole with TLS":  {"https://" + blackHole(t), nil, "no response within 2s"},
		"no response":            {"http://" + silent(t), nil, "no response within 4.5s"},
		"no TLS handshake":       {"https://" + silent(t), nil, "TLS: no response within 2s"},
		"no TLS":                 {"https://" + plain.Listener.Addr().String(), nil, "the server does not use TLS"},
		"an unknown certificate": {secure.URL, nil, "certificate signed by unknown authority"},
		"a name without address": {"https://sts.eu-west-9.amazonaws.invalid", nil, "sts.eu-west-9.amazonaws.invalid"},
		"a closed proxy":         {"https://sts.example", []string{"HTTPS_PROXY=http://" + closed(t)}, "connecting to the proxy: "},
		"a proxy that refuses":   {"https://sts.example", []string{"HTTPS_PROXY=" + refuses.URL}, "the proxy refused the connection: Forbidden; check HTTPS_PROXY and NO_PROXY"},
		"a silent proxy":         {"https://sts.example", []string{"HTTPS_PROXY=http://" + silent(t)}, "no response within 4.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range []string{
				"preflight --cluster c --ami ami-0123456789abcdef0", "userdata render --family al2023 --cluster c",
			} {
				out, errOut := process(t, append(c.env, "AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret"), args+" --endpoint "+c.endpoint)
				assert.Empty(t, out)
				assert.Contains(t, errOut, " is not reachable: ")
				assert.Contains(t, errOut, c.want)
				assert.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
			}
		})
	}
}

// process runs eksnode as a process, which must fail within seconds.
func process(t *testing.T, env []string, args string) (out, errOut string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second) // 5 on an idle machine
	defer cancel()
	file, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, file, strings.Fields(args)...)
	cmd.Args[0] = "eksnode"
	cmd.Env = append([]string{
		"AWS_REGION=eu-west-1", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true", "HOME=/nonexistent",
	}, env...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	require.NoError(t, ctx.Err(), "the command must end by itself: %s", e.String())
	assert.Equal(t, 2, ended.ExitCode())
	return o.String(), e.String()
}

func TestAnswersThatAreNotFromAWS(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusServiceUnavailable} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>a proxy's page</html>", status)
		}))
		t.Cleanup(page.Close)
		for _, args := range []string{"preflight --cluster c --ami ami-0123456789abcdef0", "ami list"} { // JSON and XML
			_, errOut := process(t, []string{"AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret", "AWS_MAX_ATTEMPTS=1", "AWS_ENDPOINT_URL=" + page.URL}, args)
			assert.Contains(t, errOut, fmt.Sprintf("the answer is HTTP %d without an error of AWS; check the endpoint, and proxies on the way\n", status))
			assert.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
		}
	}
}

// Without credentials, eksnode waits for the instance metadata service only for a moment.
func TestNoCredentialsOnAWorkstationIsKnownSoon(t *testing.T) {
	for _, address := range []string{blackHole(t), silent(t), closed(t)} {
		_, errOut := process(t, []string{"AWS_EC2_METADATA_DISABLED=", "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://" + address}, "ami list")
		assert.Contains(t, errOut, "eksnode: credentials: none were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or log in with `aws sso login`: ")
		assert.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
	}
}

// An interrupt ends a command that waits for a response.
func TestAnInterruptEndsAWaitingCommand(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		_, _ = io.Copy(io.Discard, in.Body) // otherwise the server does not see the end of the connection
		asked <- struct{}{}
		<-in.Context().Done()
	}))
	t.Cleanup(server.Close)
	file, err := os.Executable()
	require.NoError(t, err)
	for _, args := range []string{"ami list", "preflight --cluster c --ami ami-0123456789abcdef0", "manifests --cluster c --role arn:aws:iam::123456789012:role/node"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, file, append(strings.Fields(args), "--endpoint", server.URL)...)
		cmd.Args[0] = "eksnode"
		cmd.Env = []string{"AWS_REGION=eu-west-1", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		require.NoError(t, cmd.Start())
		select {
		case <-asked:
		case <-ctx.Done():
		}
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.Error(t, cmd.Wait())
		require.NoError(t, ctx.Err(), "the command must end by itself")
		assert.Equal(t, 1, strings.Count(errOut.String(), "\n"), errOut.String())
	}
}
