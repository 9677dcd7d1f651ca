package registry

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Login returns user and password for a registry's host name. ok is false when it
// has none.
type Login func(ctx context.Context, host string) (user, password string, ok bool, err error)

// logins are the credentials in this order: those of `docker login` or `podman
// login`, those of the credential helpers in Docker's configuration, and those of a
// Login.
type logins struct {
	login Login

	mu  sync.Mutex
	own map[string]bool // hosts whose credentials came from login
}

// Resolve implements authn.Keychain.
func (l *logins) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return l.ResolveContext(context.Background(), target)
}

// ResolveContext implements authn.ContextKeychain.
func (l *logins) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	found, err := authn.Resolve(ctx, authn.DefaultKeychain, target)
	if err != nil {
		return nil, &configError{err}
	}
	if l.login == nil || found != authn.Anonymous {
		return found, nil
	}
	host := target.RegistryStr()
	user, password, ok, err := l.login(ctx, host)
	if err != nil {
		return nil, &loginError{err}
	}
	if !ok {
		return found, nil
	}
	l.mu.Lock()
	l.own[host] = true
	l.mu.Unlock()
	return authn.FromConfig(authn.AuthConfig{Username: user, Password: password}), nil
}

// isOwn says whether a host's credentials came from the Login.
func (l *logins) isOwn(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own[host]
}

// configError is an unusable configuration of the user.
type configError struct{ err error }

func (e *configError) Error() string {
	return fmt.Sprintf("the configuration of docker or podman has no usable login for the registry: %s", e.err)
}

func (e *configError) Unwrap() error { return e.err }

// loginError is a failed Login.
type loginError struct{ err error }

func (e *loginError) Error() string { return e.err.Error() }
func (e *loginError) Unwrap() error { return e.err }
