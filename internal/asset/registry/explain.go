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

// part is the requested part of an image, named by the ECR permission that it needs
// (https://docs.aws.amazon.com/AmazonECR/latest/userguide/security_iam_id-based-policy-examples.html).
type part string

const (
	manifests part = "ecr:BatchGetImage"
	blobs     part = "ecr:GetDownloadUrlForLayer"
)

// refusals are the answers to a missing or invalid login. ECR answers "bad request"
// to a login for another region and to a malformed login (aws-cli #5317).
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest}

const (
	orArchive = "or give an archive of the image in"
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
		return surface.Errorf("pulling the image %s: %w; log in to the registry with docker login instead, %s %s", ref, login, orArchive, archives)
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return fmt.Errorf("pulling the image %s: the registry does not have the image: %w; check name and digest", ref, err)
	case errors.As(err, &refused) && slices.Contains(refusals, refused.StatusCode):
		return r.explainRefusal(ref, refused, asked)
	case errors.As(err, &dns) && dns.IsNotFound:
		return surface.Errorf("pulling the image %s: there is no such registry: %w; check the name, %s %s", ref, err, orArchive, archives)
	case errors.As(err, &network):
		return surface.Errorf("pulling the image %s: the Packer host cannot reach the registry: %w; check network and proxy, %s %s", ref, err, orArchive, archives)
	default:
		return fmt.Errorf("pulling the image %s: %w; try again", ref, err)
	}
}

// permission matches the ECR action in a refusal's text.
var permission = regexp.MustCompile(`ecr:[A-Za-z]+`)

// explainRefusal distinguishes a missing or expired login from a missing
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
		return surface.Errorf("pulling the image %s: the permission %s is missing: %w; grant it to the identity of the Packer host's AWS credentials and, for a repository in another account, in the repository's policy; %s %s",
			ref, missing, refused, orArchive, archives)
	default:
		return surface.Errorf("pulling the image %s: the registry refuses access: %w; log in on the Packer host with docker login (an ECR login expires after 12 hours; without a login, the default AWS credentials are used), name a credential helper in ~/.docker/config.json, %s %s",
			ref, refused, orArchive, archives)
	}
}
