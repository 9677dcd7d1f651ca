package registry

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// part is what of an image was asked for, by the permission that ECR asks for
// it (https://docs.aws.amazon.com/AmazonECR/latest/userguide/security_iam_id-based-policy-examples.html).
type part string

const (
	manifests part = "ecr:BatchGetImage"
	blobs     part = "ecr:GetDownloadUrlForLayer"
)

// refusals are the answers to a login that is missing or no good. ECR calls one
// of another region, or one that is broken, a bad request (aws-cli #5317).
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest}

const (
	orArchive = "or give an archive of it in"
	archives  = surface.Name("image_archives")
)

// explain says what a registry's refusal means and what to do.
func (r *Registry) explain(ref image.Reference, err error, asked part) error {
	var refused *transport.Error
	var config *configError
	var login *loginError
	var network net.Error
	var dns *net.DNSError
	switch {
	case errors.As(err, &config):
		return surface.Errorf("pulling the image %s: %w; correct ~/.docker/config.json or what it names, %s %s", ref, err, orArchive, archives)
	case errors.As(err, &login):
		return surface.Errorf("pulling the image %s: %w; log in to its registry with docker login instead, %s %s", ref, login, orArchive, archives)
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return fmt.Errorf("pulling the image %s: its registry does not have it: %w; check name and digest", ref, err)
	case errors.As(err, &refused) && slices.Contains(refusals, refused.StatusCode):
		return r.explainRefusal(ref, refused, asked)
	case errors.As(err, &dns) && dns.IsNotFound:
		return surface.Errorf("pulling the image %s: there is no such registry: %w; check the name, %s %s", ref, err, orArchive, archives)
	case errors.As(err, &network):
		return surface.Errorf("pulling the image %s: its registry cannot be reached from the Packer host: %w; check network and proxy, %s %s", ref, err, orArchive, archives)
	default:
		return fmt.Errorf("pulling the image %s: %w; try again", ref, err)
	}
}

// permission is an action of ECR in what it says of a refusal.
var permission = regexp.MustCompile(`ecr:[A-Za-z]+`)

// explainRefusal tells a login that is missing or worn out from one that lacks a
// permission.
func (r *Registry) explainRefusal(ref image.Reference, refused *transport.Error, asked part) error {
	host, _, _ := strings.Cut(ref.Name, "/")
	own := r.logins.isOwn(host)
	missing := permission.FindString(refused.Error())
	if missing == "" && own {
		missing = string(asked)
	}
	switch {
	case missing != "":
		return surface.Errorf("pulling the image %s: the permission %s is missing: %w; give it to whom the Packer host's AWS credentials belong to, and, in another account, let them in by the repository's policy; %s %s",
			ref, missing, refused, orArchive, archives)
	default:
		return surface.Errorf("pulling the image %s: its registry refuses: %w; log in on the Packer host with docker login, anew where an old login has expired (those of ECR do after 12 hours; without one, AWS' usual credentials are used), name a credential helper in ~/.docker/config.json, %s %s",
			ref, refused, orArchive, archives)
	}
}
