"""Folders of the Hugging Face Hub with published weights, as data.

Left out are folders without one model.safetensors (those of facebook/deit, openai's smaller CLIPs,
facebook's DINOv3-7B and google's SigLIP 2 giant, in 2026 pickles or several files), and timm's
copies of openai's CLIP, whose config.json names another activation than CLIP's.

Sources: licences by the folders' pages (openai's names none); numbers of classes and sizes by their
config.json and preprocessor_config.json, timm's by `pretrained_cfg` of timm 1.0.31. Accuracies are
ImageNet-1k validation top-1: of timm's folders by `results/results-imagenet.csv` of
pytorch-image-models, of DINOv2's heads by the README of facebookresearch/dinov2, whose heads they
are. A sha256 of model.safetensors is given here if independent public texts (lock files, lists of
downloads, pages of the Hub) state the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from keras_vit.weights.published_weights import HUB, PublishedWeights


def hub_folders() -> Iterator[PublishedWeights]:
    """All folders; the first of an owner for a variant is the default of `weights="OWNER"`."""
    known = set()
    for (licence, gated), rows in _FOLDERS.items():
        for name, model, image_size, num_classes, top1 in rows:
            entry = PublishedWeights(
                name,
                model,
                f"{HUB}{name}",
                image_size,
                num_classes,
                top1,
                default=(name.partition("/")[0], model) not in known,
                licence=licence,
                gated=gated,
                sha256=_SHA256.get(name),
            )
            known.add((entry.directory, model))
            yield entry


# By licence, and whether it must be accepted before the download: the name of the folder and of its
# variant, the size of the images (whole patches: 27 of the 384 pixels of SigLIP's So400m/14),
# classes (of timm's CLIPs the width of the projection), accuracy.
_FOLDERS = {
    ("Apache-2.0", False): (
        ("timm/deit_tiny_patch16_224.fb_in1k", "ViT-Ti_16", 224, 1000, 72.19),
        ("timm/deit_small_patch16_224.fb_in1k", "ViT-S_16", 224, 1000, 79.856),
        ("timm/deit_base_patch16_224.fb_in1k", "ViT-B_16", 224, 1000, 81.98),
        ("timm/deit_base_patch16_384.fb_in1k", "ViT-B_16", 384, 1000, 83.108),
        ("timm/deit3_small_patch16_224.fb_in22k_ft_in1k", "ViT-S_16", 224, 1000, 83.082),
        ("timm/deit3_small_patch16_384.fb_in22k_ft_in1k", "ViT-S_16", 384, 1000, 84.846),
        ("timm/deit3_base_patch16_224.fb_in22k_ft_in1k", "ViT-B_16", 224, 1000, 85.728),
        ("timm/deit3_base_patch16_384.fb_in22k_ft_in1k", "ViT-B_16", 384, 1000, 86.742),
        ("timm/deit3_large_patch16_224.fb_in22k_ft_in1k", "ViT-L_16", 224, 1000, 86.99),
        ("timm/deit3_large_patch16_384.fb_in22k_ft_in1k", "ViT-L_16", 384, 1000, 87.736),
        ("timm/deit3_huge_patch14_224.fb_in22k_ft_in1k", "ViT-H_14", 224, 1000, 87.18),
        ("google/vit-base-patch16-224", "ViT-B_16", 224, 1000, None),
        ("google/vit-base-patch16-384", "ViT-B_16", 384, 1000, None),
        ("google/vit-base-patch16-224-in21k", "ViT-B_16", 224, 0, None),
        ("google/vit-large-patch16-224-in21k", "ViT-L_16", 224, 0, None),
        ("google/vit-huge-patch14-224-in21k", "ViT-H_14", 224, 0, None),
        ("facebook/dinov2-small", "DINOv2-S_14", 224, 0, None),
        ("facebook/dinov2-base", "DINOv2-B_14", 224, 0, None),
        ("facebook/dinov2-large", "DINOv2-L_14", 224, 0, None),
        ("facebook/dinov2-giant", "DINOv2-G_14", 224, 0, None),
        ("facebook/dinov2-small-imagenet1k-1-layer", "DINOv2-S_14", 224, 1000, 81.1),
        ("facebook/dinov2-large-imagenet1k-1-layer", "DINOv2-L_14", 224, 1000, 86.3),
        ("facebook/dinov2-giant-imagenet1k-1-layer", "DINOv2-G_14", 224, 1000, 86.5),
        ("timm/vit_small_patch14_dinov2.lvd142m", "DINOv2-S_14", 518, 0, None),
        ("timm/vit_base_patch14_dinov2.lvd142m", "DINOv2-B_14", 518, 0, None),
        ("timm/vit_large_patch14_dinov2.lvd142m", "DINOv2-L_14", 518, 0, None),
        ("timm/vit_giant_patch14_dinov2.lvd142m", "DINOv2-G_14", 518, 0, None),
        ("facebook/dinov2-with-registers-small", "DINOv2-S_14-reg4", 224, 0, None),
        ("facebook/dinov2-with-registers-base", "DINOv2-B_14-reg4", 224, 0, None),
        ("facebook/dinov2-with-registers-large", "DINOv2-L_14-reg4", 224, 0, None),
        ("facebook/dinov2-with-registers-giant", "DINOv2-G_14-reg4", 224, 0, None),
        (
            "facebook/dinov2-with-registers-small-imagenet1k-1-layer",
            "DINOv2-S_14-reg4",
            224,
            1000,
            80.9,
        ),
        (
            "facebook/dinov2-with-registers-base-imagenet1k-1-layer",
            "DINOv2-B_14-reg4",
            224,
            1000,
            84.6,
        ),
        (
            "facebook/dinov2-with-registers-large-imagenet1k-1-layer",
            "DINOv2-L_14-reg4",
            224,
            1000,
            86.7,
        ),
        (
            "facebook/dinov2-with-registers-giant-imagenet1k-1-layer",
            "DINOv2-G_14-reg4",
            224,
            1000,
            87.1,
        ),
        ("timm/vit_small_patch14_reg4_dinov2.lvd142m", "DINOv2-S_14-reg4", 518, 0, None),
        ("timm/vit_base_patch14_reg4_dinov2.lvd142m", "DINOv2-B_14-reg4", 518, 0, None),
        ("timm/vit_large_patch14_reg4_dinov2.lvd142m", "DINOv2-L_14-reg4", 518, 0, None),
        ("timm/vit_giant_patch14_reg4_dinov2.lvd142m", "DINOv2-G_14-reg4", 518, 0, None),
        ("google/siglip-base-patch16-224", "SigLIP-B_16", 224, 0, None),
        ("google/siglip-base-patch16-256", "SigLIP-B_16", 256, 0, None),
        ("google/siglip-base-patch16-384", "SigLIP-B_16", 384, 0, None),
        ("google/siglip-base-patch16-512", "SigLIP-B_16", 512, 0, None),
        ("google/siglip2-base-patch16-224", "SigLIP-B_16", 224, 0, None),
        ("google/siglip2-base-patch16-256", "SigLIP-B_16", 256, 0, None),
        ("google/siglip2-base-patch16-384", "SigLIP-B_16", 384, 0, None),
        ("google/siglip2-base-patch16-512", "SigLIP-B_16", 512, 0, None),
        ("google/siglip2-base-patch32-256", "SigLIP-B_32", 256, 0, None),
        ("google/siglip-large-patch16-256", "SigLIP-L_16", 256, 0, None),
        ("google/siglip-large-patch16-384", "SigLIP-L_16", 384, 0, None),
        ("google/siglip2-large-patch16-256", "SigLIP-L_16", 256, 0, None),
        ("google/siglip2-large-patch16-384", "SigLIP-L_16", 384, 0, None),
        ("google/siglip2-large-patch16-512", "SigLIP-L_16", 512, 0, None),
        ("google/siglip-so400m-patch14-224", "SigLIP-So400m_14", 224, 0, None),
        ("google/siglip-so400m-patch14-384", "SigLIP-So400m_14", 378, 0, None),
        ("google/siglip2-so400m-patch14-224", "SigLIP-So400m_14", 224, 0, None),
        ("google/siglip2-so400m-patch14-384", "SigLIP-So400m_14", 378, 0, None),
        ("google/siglip2-so400m-patch16-256", "SigLIP-So400m_16", 256, 0, None),
        ("google/siglip2-so400m-patch16-384", "SigLIP-So400m_16", 384, 0, None),
        ("google/siglip2-so400m-patch16-512", "SigLIP-So400m_16", 512, 0, None),
        ("timm/vit_giantopt_patch16_siglip_256.v2_webli", "SigLIP-G_16", 256, 0, None),
        ("timm/vit_giantopt_patch16_siglip_384.v2_webli", "SigLIP-G_16", 384, 0, None),
    ),
    ("not stated", False): (("openai/clip-vit-large-patch14", "CLIP-L_14", 224, 0, None),),
    ("MIT", False): (
        ("timm/vit_base_patch32_clip_224.laion2b", "CLIP-B_32", 224, 512, None),
        ("timm/vit_base_patch16_clip_224.laion2b", "CLIP-B_16", 224, 512, None),
        ("timm/vit_large_patch14_clip_224.laion2b", "CLIP-L_14", 224, 768, None),
        ("timm/eva02_tiny_patch14_336.mim_in22k_ft_in1k", "EVA02-Ti_14", 336, 1000, 80.648),
        ("timm/eva02_small_patch14_336.mim_in22k_ft_in1k", "EVA02-S_14", 336, 1000, 85.77),
        ("timm/eva02_base_patch14_448.mim_in22k_ft_in22k_in1k", "EVA02-B_14", 448, 1000, 88.678),
        ("timm/eva02_large_patch14_448.mim_m38m_ft_in22k_in1k", "EVA02-L_14", 448, 1000, 90.056),
        ("timm/eva02_large_patch14_448.mim_in22k_ft_in22k_in1k", "EVA02-L_14", 448, 1000, 89.956),
        ("timm/eva02_tiny_patch14_224.mim_in22k", "EVA02-Ti_14", 224, 0, None),
        ("timm/eva02_small_patch14_224.mim_in22k", "EVA02-S_14", 224, 0, None),
        ("timm/eva02_base_patch14_224.mim_in22k", "EVA02-B_14", 224, 0, None),
        ("timm/eva02_large_patch14_224.mim_m38m", "EVA02-L_14", 224, 0, None),
        ("timm/eva02_large_patch14_224.mim_in22k", "EVA02-L_14", 224, 0, None),
    ),
    ("DINOv3", True): (
        ("facebook/dinov3-vits16-pretrain-lvd1689m", "DINOv3-S_16", 224, 0, None),
        ("facebook/dinov3-vits16plus-pretrain-lvd1689m", "DINOv3-S_16-plus", 224, 0, None),
        ("facebook/dinov3-vitb16-pretrain-lvd1689m", "DINOv3-B_16", 224, 0, None),
        ("facebook/dinov3-vitl16-pretrain-lvd1689m", "DINOv3-L_16", 224, 0, None),
        ("facebook/dinov3-vith16plus-pretrain-lvd1689m", "DINOv3-H_16-plus", 224, 0, None),
    ),
    ("DINOv3", False): (
        ("timm/vit_small_patch16_dinov3.lvd1689m", "DINOv3-S_16", 256, 0, None),
        ("timm/vit_small_plus_patch16_dinov3.lvd1689m", "DINOv3-S_16-plus", 256, 0, None),
        ("timm/vit_base_patch16_dinov3.lvd1689m", "DINOv3-B_16", 256, 0, None),
        ("timm/vit_large_patch16_dinov3.lvd1689m", "DINOv3-L_16", 256, 0, None),
        ("timm/vit_huge_plus_patch16_dinov3.lvd1689m", "DINOv3-H_16-plus", 256, 0, None),
        ("timm/vit_7b_patch16_dinov3.lvd1689m", "DINOv3-7B_16", 256, 0, None),
        ("timm/vit_large_patch16_dinov3.sat493m", "DINOv3-L_16", 256, 0, None),
    ),
}
_SHA256 = {
    "google/vit-base-patch16-224": (
        "1cea07110a4a47edc51420b2dda6f3b8b58e7256e8f44b4ea6aa9696162ccb5d"
    ),
    "google/vit-base-patch16-224-in21k": (
        "fd4e1169c7aa6c2dbfa8a6448be13b35abc0ee256190857c90009d12c094619b"
    ),
    "facebook/dinov2-small": "ae1e99fcefd534ed978cdeb8326f08030c96e28b7a81ffcbc98a857c84d14be1",
    "facebook/dinov2-base": "d73036b56966966d07975d696bde331762f37297e2f095de8cea0040c3aa0841",
    "facebook/dinov2-large": "399fba97a95f22c36834418bc69373364a99af3a1153da1c0fb31db567c92e23",
    "facebook/dinov2-giant": "917d3c470db999d32a312f8542149be91c7cbac61ee8fb4b67ae3d82b79ce21f",
    "timm/vit_small_patch14_dinov2.lvd142m": (
        "04d27f3400d059fc0cfd7d17dd1909a75bf3ea8fb3eeb48b97cb99e57ee20081"
    ),
    "timm/vit_base_patch14_dinov2.lvd142m": (
        "55cbb5d887b336d430e649c277b85a1429e724871f9d02ac16203235886d8c7b"
    ),
    "timm/vit_large_patch14_dinov2.lvd142m": (
        "0424a5d1b515278cba3c6640ccbeaacc41de59d3a93df0dd5e494285eea2b355"
    ),
    "facebook/dinov2-with-registers-base": (
        "7a6f7b3b9fa4b8732e707476a03cd6cdce210048582f21aafb7991c17d98e362"
    ),
    "facebook/dinov2-with-registers-giant": (
        "c03832d44691e99b62ae28c4dfa2f134853a3614b3756c94f525109cce5a5051"
    ),
    "timm/vit_base_patch14_reg4_dinov2.lvd142m": (
        "c24ecfb4a1d8ca79193f6b9efcffc461872a09ddac43a0931357e4802931a006"
    ),
    "google/siglip-base-patch16-224": (
        "2c63cb7d1f2e95ba501893cbb8faeb4ea9a3af295498d35097126228659c2af8"
    ),
    "google/siglip-base-patch16-256": (
        "f0cee7c815135c44a515eff72ab3040499744920442bc25567cd04efc93f8f65"
    ),
    "google/siglip-base-patch16-512": (
        "4ef724068f6b603c8f15937d9b93b36bbda92677e747b599dd950b6b74721ca7"
    ),
    "google/siglip2-base-patch16-224": (
        "612923381c76ec5a9bed335d1c48827e3f2e506ac31b044b63b2031fadee6a0b"
    ),
    "google/siglip2-base-patch16-256": (
        "6125cacc01fa93bdc98a0c5101cefcd69b2ed1f8ab4f38d86f4ad5984f5dc863"
    ),
    "google/siglip2-base-patch16-384": (
        "ed72c0ace85020ae610fc817c2538b9cae5a477b012a50859c60af5b3ad30857"
    ),
    "google/siglip2-base-patch16-512": (
        "fe0e601c625e69eed8e73500d39e9b6164403fe03db8048e87913c3cefbbb3fe"
    ),
    "google/siglip2-base-patch32-256": (
        "7d241bb3becad218f211f480487f491df4f8c0a472ecf7afdec5615815a301f1"
    ),
    "google/siglip-so400m-patch14-384": (
        "ea2abad2b7f8a9c1aa5e49a244d5d57ffa71c56f720c94bc5d240ef4d6e1d94a"
    ),
    "google/siglip2-so400m-patch14-384": (
        "9f4f4a49f908ef0c979bce8ff5a5c0e88882dc6c5dc4304387cbbd152558e2c2"
    ),
    "google/siglip2-so400m-patch16-512": (
        "a621bd212e1b3329b428595f9693217e19587afe826adf3e5c241a16392e8973"
    ),
    "openai/clip-vit-large-patch14": (
        "a2bf730a0c7debf160f7a6b50b3aaf3703e7e88ac73de7a314903141db026dcb"
    ),
    "facebook/dinov3-vits16-pretrain-lvd1689m": (
        "4610ad75edef83e75afdebf162d148dc628045ea6cbb83d67d4708c709c4f91d"
    ),
    "facebook/dinov3-vits16plus-pretrain-lvd1689m": (
        "208146e499dace99e4c9376ddb8a26f77d64c31c46c4dc4b86ff8bc63b0235e2"
    ),
    "facebook/dinov3-vitb16-pretrain-lvd1689m": (
        "9a21ac3df0c63839d62612dda6f454d816c25611cc7a52966ed5a5a94921dc8b"
    ),
    "facebook/dinov3-vitl16-pretrain-lvd1689m": (
        "dcb2e45127cccbf1601e5f42fef165eea275c8e5213197e8dcf3f48822718179"
    ),
    "timm/vit_small_patch16_dinov3.lvd1689m": (
        "2a1ec16ae28ffa07bc0ead0241ee7df9fc26451fe6f9f839b7b3afa0a906b040"
    ),
    "timm/vit_base_patch16_dinov3.lvd1689m": (
        "1f9ed8a2378d65e24bb710ba522ac9fa7be4e036d7aefb4384ce022833926332"
    ),
    "timm/vit_large_patch16_dinov3.lvd1689m": (
        "45172f209c9583c40538afc26b60a07033e6fcc2e8c30228338e6b2e932e7941"
    ),
}
