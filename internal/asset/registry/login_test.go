package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset/registry"
)

// lets is a Login for one host that counts its calls.
type lets struct {
	host, password string
	err            error
	asked          []string
}

func (l *lets) login(_ context.Context, host string) (user, password string, ok bool, err error) {
	l.asked = append(l.asked, host)
	return "AWS", l.password, host == l.host, l.err
}

func loggingIn(t *testing.T, l *lets) *registry.Registry {
	t.Helper()
	r, err := registry.New(l.login, fetcher())
	require.NoError(t, err)
	return r
}

func TestALoginReplacesMissingCredentials(t *testing.T) {
	s := serve(t)
	s.only("token")
	l := &lets{host: s.host, password: "token"}
	var one bytes.Buffer
	target, err := pull(t, loggingIn(t, l), s.reference(t), "arm64", as, &one)
	require.NoError(t, err)
	s.checkArchive(t, one.Bytes(), target)
	r := s.reference(t)
	digest, err := loggingIn(t, l).Resolve(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, r.Digest, digest)
}

func TestTheUsersLoginTakesPrecedence(t *testing.T) {
	s := serve(t)
	s.only("token")
	l := &lets{host: s.host, password: "another"}
	configure(t, `{"auths":{%q:{"auth":"QVdTOnRva2Vu"}}}`, s.host)
	_, err := pull(t, loggingIn(t, l), s.reference(t), "arm64", as, io.Discard)
	require.NoError(t, err)
	assert.Empty(t, l.asked)
	configure(t, `{"auths":{"elsewhere":{"auth":"QVdTOnRva2Vu"}}}`)
	l.password = "token"
	_, err = pull(t, loggingIn(t, l), s.reference(t), "arm64", as, io.Discard)
	require.NoError(t, err, "another registry's login must not be used")
	assert.Contains(t, l.asked, s.host)
}

func TestALoginOfAnotherHostIsNotSent(t *testing.T) {
	s := serve(t)
	s.only("token")
	_, err := pull(t, loggingIn(t, &lets{host: "elsewhere", password: "token"}), s.reference(t), "arm64", as, io.Discard)
	require.ErrorContains(t, err, "the registry refuses access: ")
	assert.NotContains(t, err.Error(), "permission")
}

// Errors name a missing login or permission. ECR's error names the permission, but a
// response to HEAD has no text.
func TestFailedLoginsNameTheRemedy(t *testing.T) {
	const denied = `{"errors":[{"code":"DENIED","message":"User: arn:aws:iam::123456789012:user/x is not authorized to perform: ecr:BatchGetImage on resource: arn:aws:ecr:eu-west-1:123456789012:repository/eks/pause because no identity-based policy allows the ecr:BatchGetImage action"}]}`
	refuse := func(part, text string) func(*served) {
		return func(s *served) {
			s.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, part) {
					return false
				}
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, text)
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*served)
		login  lets
		config string
		want   []string
	}{
		"no credentials": {func(s *served) { s.only("token") }, lets{err: errors.New("logging in to x: credentials: none were found")}, "",
			[]string{"pulling the image {}: logging in to x: credentials: none were found; log in to the registry with docker login instead, or give an archive of the image in image_archives"}},
		"no manifest": {refuse("/manifests/", denied), lets{password: "token"}, "",
			[]string{"pulling the image {}: the permission ecr:BatchGetImage is missing: ", "arn:aws:ecr:eu-west-1:123456789012:repository/eks/pause", "; grant it to the identity of the Packer host's AWS credentials"}},
		"no layer": {refuse("/blobs/", ""), lets{password: "token"}, "",
			[]string{"pulling the image {}: the permission ecr:GetDownloadUrlForLayer is missing: "}},
		"an old login of the user's": {refuse("/manifests/", `{"errors":[{"code":"DENIED","message":"Your authorization token has expired. Reauthenticate and try again."}]}`), lets{}, `{"auths":{"{host}":{"auth":"QVdTOnRva2Vu"}}}`,
			[]string{"pulling the image {}: the registry refuses access: ", "Your authorization token has expired", "an ECR login expires after 12 hours"}},
		"a credential helper that is missing": {func(*served) {}, lets{}, `{"credHelpers":{"{host}":"eksnode-absent"}}`,
			[]string{"pulling the image {}: the configuration of docker or podman has no usable login for the registry: ", "docker-credential-eksnode-absent", "; correct ~/.docker/config.json or what it names, or give an archive"}},
		"a configuration that is broken": {func(*served) {}, lets{}, `{"auths":`,
			[]string{"pulling the image {}: the configuration of docker or podman has no usable login for the registry: ", "config.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			c.change(s)
			c.login.host = s.host
			if c.config != "" {
				configure(t, "%s", strings.ReplaceAll(c.config, "{host}", s.host))
			}
			r := s.reference(t)
			_, err := pull(t, loggingIn(t, &c.login), r, "arm64", as, io.Discard)
			require.Error(t, err)
			for _, part := range c.want {
				assert.ErrorContains(t, err, strings.ReplaceAll(part, "{}", r.String()))
			}
			_, err = loggingIn(t, &c.login).Resolve(t.Context(), r)
			if name == "no layer" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.ErrorContains(t, err, strings.ReplaceAll(c.want[0], "{}", r.String()), "Resolve returns the same error")
		})
	}
}
