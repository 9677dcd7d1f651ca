package userdata

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Family is one form of user data.
type Family struct {
	// ID is the name for flags.
	ID string
	// About is a phrase for help texts.
	About string
	// Carries marks a manifest of another tool, which carries the user data of
	// one of the other families.
	Carries bool
	// Karpenter is the amiFamily of an EC2NodeClass for which Karpenter writes user
	// data of this family; empty if there is none.
	Karpenter string

	// render writes user data for a valid description. A family that carries
	// another's user data gets that family.
	render func(Node, Family) ([]byte, error)
	// check looks at a whole text.
	check func(*checker, string)
	// is says whether a text is of this family, by how it looks.
	is func(string) bool
	// cloudInit says that cloud-init reads the user data.
	cloudInit bool
	// eksctl is eksctl's name of the family; empty if eksctl takes no user data
	// for the family.
	eksctl string
}

// Families returns all families, in the order in which Check tries them.
func Families() []Family {
	return []Family{
		{
			ID: "karpenter", About: "Karpenter's EC2NodeClass with amiFamily Custom", Carries: true,
			render: renderKarpenter, check: checkKarpenter, is: isManifest("EC2NodeClass"),
		},
		{
			ID: "eksctl", About: "eksctl's ClusterConfig with a node group of your own image", Carries: true,
			render: renderEksctl, check: checkEksctl, is: isManifest("ClusterConfig"),
		},
		{
			ID: "windows", About: "PowerShell calling Start-EKSBootstrap.ps1",
			render: renderWindows, check: checkWindows, is: isWindows,
		},
		{
			ID: "al2023", About: "NodeConfig in MIME, as Amazon Linux 2023 and this project's images read it",
			render: renderAL2023, check: checkAL2023, is: isAL2023, Karpenter: "AL2023", eksctl: "AmazonLinux2023",
		},
		{
			ID: "ubuntu", About: "cloud-config calling bootstrap.sh, for Canonical's images",
			render: renderUbuntu, check: checkAL2, is: isUbuntu, cloudInit: true, eksctl: "Ubuntu2404",
		},
		{
			ID: "bottlerocket", About: "Bottlerocket's settings in TOML", Karpenter: "Bottlerocket",
			render: renderBottlerocket, check: checkBottlerocket, is: isBottlerocket,
		},
		{
			ID: "al2", Karpenter: "AL2", eksctl: "AmazonLinux2", cloudInit: true,
			About:  "a shell script in MIME calling bootstrap.sh, as Amazon Linux 2 and this project's images read it",
			render: renderAL2, check: checkAL2, is: isAL2,
		},
	}
}

// IDs lists the families' IDs.
func IDs() []string {
	return show.Each(Families(), func(f Family) string { return f.ID })
}

// ByID returns a family. An unknown ID is an error that lists the known IDs.
func ByID(id string) (Family, error) {
	for _, f := range Families() {
		if f.ID == id {
			return f, nil
		}
	}
	return Family{}, fmt.Errorf("user data of the family %q is not known; known are %s%s", id,
		strings.Join(IDs(), ", "), show.Meant(id, IDs()))
}

// Render writes user data. For a family that carries another's user data, Render
// writes a manifest with user data of the family carried. The result passes
// Check.
func Render(family, carried string, n Node) ([]byte, error) {
	f, err := ByID(family)
	if err != nil {
		return nil, err
	}
	var inner Family
	if f.Carries {
		if inner, err = ByID(carried); err != nil {
			return nil, err
		}
		if inner.Carries {
			return nil, fmt.Errorf("%s carries user data of a machine, and %s is none", f.ID, inner.ID)
		}
	}
	if err := n.Validate(); err != nil {
		return nil, err
	}
	text, err := f.render(n, inner)
	if err != nil {
		return nil, fmt.Errorf("writing user data for %s: %w", f.ID, err)
	}
	report, err := Check(text, f.ID)
	if err != nil {
		return nil, err
	}
	if report.Failed() {
		var errs []error
		for _, p := range report.Problems {
			errs = append(errs, errors.New(p.String()))
		}
		return nil, fmt.Errorf("checking what was written for %s: %w", f.ID, errors.Join(errs...))
	}
	return text, nil
}

// maxUserData is how many bytes user data may have before its base64
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html).
const maxUserData = 16 << 10

// Check reports everything that is wrong with user data. An empty family means
// the family that the user data looks like; an error says that there is none.
func Check(content []byte, family string) (Report, error) { return check(content, family, false) }

// CheckMerged is Check for user data that a tool merges with its own, which has
// the machine join its cluster: EKS for managed node groups without an image of
// their own, and Karpenter unless amiFamily is Custom.
func CheckMerged(content []byte, family string) (Report, error) { return check(content, family, true) }

func check(content []byte, family string, merged bool) (Report, error) {
	plain, packed, err := nodeconfig.Unwrap(content)
	if err != nil {
		return Report{}, fmt.Errorf("reading user data: %w", err)
	}
	text := string(plain)
	f, err := ByID(family)
	if family == "" {
		f, err = detect(text)
	}
	if err != nil {
		return Report{}, err
	}
	if !f.cloudInit && !nodeconfig.IsMIME(text) { // YAML, TOML and PowerShell may begin with one
		text = strings.TrimPrefix(text, byteOrderMark)
	}
	report := Report{Family: f.ID, Problems: []Problem{}}
	c := &checker{found: &found{report: &report, content: content, clusterElsewhere: merged, joinsElsewhere: merged}}
	if !f.Carries {
		c.size(f, len(cmp.Or(string(packed), text)), packed != nil)
	}
	f.check(c, text)
	slices.SortStableFunc(report.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return report, nil
}

// size says whether user data is too large, as EC2 counts: before its base64.
func (c *checker) size(f Family, size int, packed bool) {
	advice := "; compress it with gzip"
	switch {
	case f.ID == windowsID: // EC2Launch does not read gzip
		advice = "; fetch a part of the script from elsewhere"
	case packed:
		advice = ", also compressed"
	}
	if size > maxUserData {
		c.fail(0, "", "it has %d bytes, and EC2 takes at most %d%s", size, maxUserData, advice)
	}
}

// detect tells a text's family by how it looks.
func detect(text string) (Family, error) {
	if strings.TrimSpace(strings.TrimPrefix(text, byteOrderMark)) == "" {
		return Family{}, errors.New("the user data is empty: without the user data of EKS or Karpenter, " +
			"the machine joins no cluster")
	}
	for _, f := range Families() {
		if f.is(strings.TrimPrefix(text, byteOrderMark)) {
			return f, nil
		}
	}
	return Family{}, fmt.Errorf("the family of the user data is not recognized; name one of %s",
		strings.Join(IDs(), ", "))
}

// maxText bounds what user data may grow to when it is decompressed, in bytes.
const maxText = 1 << 20

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// amazonConfig is a NodeConfig with the types of Amazon's nodeadm, which takes no base64
// without padding (awslabs/amazon-eks-ami, nodeadm/api/v1alpha1).
type amazonConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		nodeconfig.Spec
		Cluster struct {
			nodeconfig.Cluster
			CertificateAuthority []byte `json:"certificateAuthority"`
		} `json:"cluster"`
	} `json:"spec"`
}

// readByAmazon returns why Amazon's nodeadm does not read the NodeConfigs in user data;
// nil if it does. The function takes the steps of `nodeadm config check` with the same
// libraries, so that both refuse the same texts. whole says that the cluster must be in
// the user data. A test compares the verdicts.
func readByAmazon(text []byte, whole bool) error {
	var config amazonConfig
	if err := config.read(text); err != nil || !whole {
		return err
	}
	cluster := config.Spec.Cluster
	switch {
	case cluster.Name == "", cluster.APIServerEndpoint == "", cluster.CertificateAuthority == nil, cluster.CIDR == "":
		return errors.New("spec.cluster has no name, apiServerEndpoint, certificateAuthority or cidr")
	case cluster.Outpost() && cluster.ID == "":
		return errors.New("spec.cluster.id is missing for an Outpost")
	default:
		return nil
	}
}

// read merges the NodeConfigs of a text into c. What c has and the text has not, stays.
func (c *amazonConfig) read(text []byte) error {
	text, err := amazonUnwrap(text)
	if err != nil {
		return err
	}
	message, params, err := amazonMultipart(text)
	if err != nil {
		notYAML := c.decode(text)
		if notYAML != nil && nodeconfig.IsMIME(string(text)) {
			return fmt.Errorf("the text is not read as MIME (%w), and is no YAML: %w", err, notYAML)
		}
		return notYAML
	}
	parts := multipart.NewReader(message.Body, params["boundary"])
	for found := false; ; {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF) && found:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("no part has the type %s", nodeconfig.MediaType)
		case err != nil:
			return err
		}
		isConfig, err := c.part(part)
		if err != nil {
			return err
		}
		found = found || isConfig
	}
}

func amazonMultipart(text []byte) (message *mail.Message, params map[string]string, err error) {
	if message, err = mail.ReadMessage(bytes.NewReader(text)); err != nil {
		return nil, nil, err
	}
	media, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err == nil && !strings.HasPrefix(media, "multipart/") {
		err = fmt.Errorf("the Content-Type %q is not multipart", nodeconfig.Printable(media))
	}
	return message, params, err
}

func (c *amazonConfig) part(part *multipart.Part) (isConfig bool, err error) {
	value := part.Header.Get("Content-Type")
	if value == "" {
		return false, nil
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil {
		return false, fmt.Errorf("the Content-Type %q: %w", nodeconfig.Printable(value), err)
	}
	if media != nodeconfig.MediaType {
		return false, nil
	}
	text, err := io.ReadAll(part)
	if err == nil {
		text, err = amazonUnwrap(text)
	}
	if err != nil {
		return false, err
	}
	return true, c.decode(text)
}

func amazonUnwrap(text []byte) ([]byte, error) {
	if plain, err := base64.StdEncoding.DecodeString(string(text)); err == nil {
		text = plain
	}
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(z, maxText))
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return text, nil
}

// decode reads one NodeConfig as the decoder of k8s.io/apimachinery does: a text that begins
// with { is JSON. In other texts it reads the first YAML document.
func (c *amazonConfig) decode(text []byte) error {
	if len(text) > maxYAML {
		return fmt.Errorf("the NodeConfig has more than %d KiB", maxYAML>>10)
	}
	var err error
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("the NodeConfig is empty")
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return err
		}
	}
	if string(text) == "null" {
		return errors.New("the first YAML document is empty, and only the first is read")
	}
	var identity struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &identity); err != nil {
		return fmt.Errorf("it is not an object with apiVersion and kind: %w", err)
	}
	if identity.APIVersion != nodeconfig.APIVersion || identity.Kind != nodeconfig.Kind {
		return fmt.Errorf("apiVersion %q, kind %q is not a NodeConfig (%s)",
			nodeconfig.Printable(identity.APIVersion), nodeconfig.Printable(identity.Kind), nodeconfig.APIVersion)
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, c)
}
