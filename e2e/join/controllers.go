package join

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// uninitialized is the taint that the cloud controller manager takes from a
// node once it has looked at it.
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// control does what EKS's own controllers do, until ctx ends.
func (c *Cluster) control(ctx context.Context) {
	ticker := time.NewTicker(2 * step)
	defer ticker.Stop()
	for {
		for name, do := range map[string]func(context.Context) error{
			"approving certificates": c.approve, "initializing nodes": c.initialize,
		} {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintf(c.config.Log, "%s: %s: %v\n", c.Name, name, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// signingRequest is a CertificateSigningRequest, as far as it matters here.
type signingRequest struct {
	Metadata struct{ Name string }
	Spec     struct {
		Request              []byte
		SignerName, Username string
	}
	Status struct {
		Conditions []struct{ Type string }
	}
}

// approve approves the requests for serving certificates that the nodes file for
// themselves, and denies those that claim another's name or address.
func (c *Cluster) approve(ctx context.Context) error {
	var list struct{ Items []json.RawMessage }
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	if err := c.Call(ctx, http.MethodGet, path, nil, &list); err != nil {
		return err
	}
	for _, text := range list.Items {
		var request signingRequest
		if err := json.Unmarshal(text, &request); err != nil {
			return err
		}
		if len(request.Status.Conditions) > 0 || request.Spec.SignerName != "kubernetes.io/kubelet-serving" {
			continue
		}
		condition := map[string]string{"type": "Approved", "status": "True", "reason": "AsEKSDoes"}
		if err := c.suits(request); err != nil {
			condition["type"], condition["message"] = "Denied", err.Error()
		}
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		object["apiVersion"], object["kind"] = "certificates.k8s.io/v1", "CertificateSigningRequest"
		object["status"] = map[string]any{"conditions": []any{condition}}
		if err := c.Call(ctx, http.MethodPut, path+"/"+request.Metadata.Name+"/approval", object, nil); err != nil {
			return err
		}
	}
	return nil
}

// suits says why a request is not for whoever files it.
func (c *Cluster) suits(request signingRequest) error {
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil {
		return fmt.Errorf("%s has no PEM", request.Metadata.Name)
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	name, isNode := strings.CutPrefix(request.Spec.Username, "system:node:")
	address, _, _ := strings.Cut(strings.TrimPrefix(name, "ip-"), ".")
	address = strings.ReplaceAll(address, "-", ".")
	if !isNode || asked.Subject.CommonName != request.Spec.Username ||
		slices.ContainsFunc(asked.DNSNames, func(dns string) bool { return dns != name }) {
		return fmt.Errorf("%s asks for %s, %q", request.Spec.Username, asked.Subject.CommonName, asked.DNSNames)
	}
	for _, ip := range asked.IPAddresses {
		if ip.String() != address {
			return fmt.Errorf("%s asks for the address %s", request.Spec.Username, ip)
		}
	}
	return nil
}

// Taint keeps pods off a node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// initialize takes the taint of uninitialized nodes away.
func (c *Cluster) initialize(ctx context.Context) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		rest := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t Taint) bool { return t.Key == uninitialized })
		if len(rest) == len(node.Spec.Taints) {
			continue
		}
		patch := map[string]any{
			"metadata": map[string]any{"resourceVersion": node.Metadata.ResourceVersion}, "spec": map[string]any{"taints": rest},
		}
		err := c.Call(ctx, http.MethodPatch, "/api/v1/nodes/"+url.PathEscape(node.Metadata.Name), patch, nil)
		if err != nil && !IsConflict(err) {
			return err
		}
	}
	return nil
}
