package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// amazonConfig is a NodeConfig with the types of Amazon's nodeadm
// (awslabs/amazon-eks-ami, nodeadm/api/v1alpha1).
type amazonConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Cluster struct {
			Name                 string `json:"name"`
			APIServerEndpoint    string `json:"apiServerEndpoint"`
			CertificateAuthority []byte `json:"certificateAuthority"`
			CIDR                 string `json:"cidr"`
			EnableOutpost        *bool  `json:"enableOutpost"`
			ID                   string `json:"id"`
		} `json:"cluster"`
		Containerd struct {
			Config          string                     `json:"config"`
			BaseRuntimeSpec map[string]json.RawMessage `json:"baseRuntimeSpec"`
		} `json:"containerd"`
		Instance struct {
			LocalStorage struct {
				Strategy       string   `json:"strategy"`
				MountPath      string   `json:"mountPath"`
				DisabledMounts []string `json:"disabledMounts"`
			} `json:"localStorage"`
			Environment map[string]map[string]string `json:"environment"`
			Network     struct {
				Nameservers []string `json:"nameservers"`
				Domains     []string `json:"domains"`
			} `json:"network"`
		} `json:"instance"`
		Kubelet struct {
			Config            map[string]json.RawMessage `json:"config"`
			Flags             []string                   `json:"flags"`
			MaxPodsExpression string                     `json:"maxPodsExpression"`
		} `json:"kubelet"`
		FeatureGates map[string]bool `json:"featureGates"`
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
	case cluster.EnableOutpost != nil && *cluster.EnableOutpost && cluster.ID == "":
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
