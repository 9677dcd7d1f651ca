# Builds EKS node AMIs: one for each distribution of variables.pkr.hcl, each of its
# processors and each Kubernetes version. README.md has the commands and the
# permissions.

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.8.2"
    }
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}

locals {
  # The matrix: one AMI for each entry. The key is the name for -only, such as
  # amazon-ebs.debian13-arm64-1.36.3.
  images = { for image in flatten([
    for distro, base in var.distros : [
      for processor, spelling in base.processors : [
        for version in var.kubernetes_versions : {
          distro    = distro
          processor = processor
          version   = version
          minor     = join(".", slice(split(".", version), 0, 2))
          base      = replace(base.name, "{processor}", spelling)
          owner     = base.owner
          device    = base.root_device
          user      = base.ssh_username
          assets    = lookup(var.versions, version, {})
          checksums = lookup(var.checksums, "${version}/${processor}", {})
        }
      ]
    ]
  ]) : "${image.distro}-${image.processor}-${image.version}" => image }

  # AMI names must be unique within an account and region.
  time       = formatdate("YYYYMMDDhhmmss", timestamp())
  deprecated = formatdate("YYYY-MM-DD'T'hh:mm:ss'Z'", timeadd(timestamp(), "${var.deprecate_after_days * 24}h"))

  # Copies with a KMS key of their own are encrypted again during the copy. The
  # build's region then needs a key too.
  reencrypt = length(compact(values(var.copies))) > 0

  # Tags of every AMI. `eksnode ami` and `eksnode preflight` read the tags that
  # begin with "eksnode:".
  tags = merge({
    "eksnode:base-image" = "{{ .SourceAMIName }}"
  }, var.tags)
}

# Settings of every build.
source "amazon-ebs" "node" {
  region               = var.region
  subnet_id            = var.subnet_id
  iam_instance_profile = var.instance_profile
  imds_support         = "v2.0" # nodes must use IMDSv2
  deprecate_at         = local.deprecated
  skip_ami_run_tags    = true # tags of the builder machine are not for the AMI

  # Copies to other regions. Without keys, a copy gets its region's default EBS
  # key: encrypted snapshots stay encrypted.
  ami_regions        = keys(var.copies)
  encrypt_boot       = local.reencrypt ? true : null
  kms_key_id         = local.reencrypt ? var.kms_key_id : null
  region_kms_key_ids = local.reencrypt ? var.copies : null

  # The key that Packer logs in with. eksnode-scrub removes it from the machine.
  temporary_key_pair_type               = "ed25519"
  temporary_security_group_source_cidrs = var.ssh_source_cidrs
  ssh_interface                         = var.ssh_interface

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
}

build {
  dynamic "source" {
    for_each = local.images
    iterator = image
    labels   = ["amazon-ebs.node"]

    content {
      name            = image.key
      ami_name        = "${var.name}-${image.key}-${local.time}"
      ami_description = "EKS node, Kubernetes ${image.value.version}, ${image.value.distro}"
      instance_type   = var.instance_types[image.value.processor]
      ssh_username    = image.value.user

      source_ami_filter {
        owners      = [image.value.owner]
        most_recent = true
        filters = {
          name         = image.value.base
          architecture = image.value.processor
          # launch_block_device_mappings must name the root device. With another
          # name, EC2 adds a second volume and leaves the root volume unencrypted.
          root-device-name    = image.value.device
          root-device-type    = "ebs"
          virtualization-type = "hvm"
        }
      }

      launch_block_device_mappings {
        device_name           = image.value.device
        volume_type           = "gp3"
        volume_size           = var.volume_size
        encrypted             = true
        kms_key_id            = var.kms_key_id
        delete_on_termination = true
      }

      tags = merge(local.tags, {
        "eksnode:kubernetes-version" = image.value.version
        "eksnode:distro"             = image.value.distro
        "eksnode:processor"          = image.value.processor
      })
      snapshot_tags   = { "eksnode:image" = "${var.name}-${image.key}-${local.time}" }
      run_tags        = merge(var.tags, { Name = "Packer: ${var.name}-${image.key}" })
      run_volume_tags = merge(var.tags, { Name = "Packer: ${var.name}-${image.key}" })
    }
  }

  # The same for every distribution: the provisioner detects which one it runs on.
  provisioner "eksnode" {
    kubernetes_version = local.images[source.name].version
    versions           = local.images[source.name].assets
    checksums          = local.images[source.name].checksums
    source_url         = var.source_url
    allow_http         = var.allow_http
    report             = "${var.reports}/${source.name}-provision.json"
  }

  # Must be the last provisioner: what runs after a scrub is in the image again.
  provisioner "eksnode-scrub" {
    report = "${var.reports}/${source.name}-scrub.json"
  }

  # Publishes the newest AMI of each kind in an SSM parameter of every region that
  # has it. Launch templates read the parameter.
  dynamic "post-processor" {
    for_each = var.publish_under == "" ? [] : [var.publish_under]
    iterator = under
    labels   = ["eksnode-publish"]

    content {
      parameter = "${under.value}/${local.images[source.name].distro}/${local.images[source.name].minor}/${local.images[source.name].processor}"
    }
  }
}
