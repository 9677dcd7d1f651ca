package registry

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Login gets user and password for a registry, by its host's name; false says
// that it has none for it.
type Login func(ctx context.Context, host string) (user, password string, ok bool, err error)

// logins are the credentials: what `docker login` or `podman login` left for the
// user, and what the credential helpers have that Docker's configuration names;
// only where there is nothing of it, a Login's.
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

// configError is the user's configuration that cannot be used.
type configError struct{ err error }

func (e *configError) Error() string {
	return fmt.Sprintf("the configuration of docker or podman has no usable login for its registry: %s", e.err)
}

func (e *configError) Unwrap() error { return e.err }

// loginError is a Login that failed.
type loginError struct{ err error }

func (e *loginError) Error() string { return e.err.Error() }
func (e *loginError) Unwrap() error { return e.err }
